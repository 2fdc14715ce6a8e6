-- insert_lanes: New lanes, of which nothing is published.
INSERT INTO batchline_parcel_lanes (topic, publication, lane)
SELECT :topic::bigint, :publication::text, * FROM unnest(:lane::integer[])
ON CONFLICT DO NOTHING;

-- hold_lanes: How far lanes have come, locked until the transaction ends.
SELECT lane, published, delivered, secret, unsigned_to FROM batchline_parcel_lanes
WHERE topic = :topic AND publication = :publication AND lane = ANY(:lanes::integer[])
ORDER BY lane FOR UPDATE;

-- write_lanes: How far lanes have come, and their secrets.
UPDATE batchline_parcel_lanes AS l
SET published = q.published, delivered = q.delivered, secret = q.secret, unsigned_to = q.unsigned_to
FROM unnest(
    :lane::integer[], :published::bigint[], :delivered::bigint[], :secret::text[], :unsigned_to::bigint[]
) AS q (lane, published, delivered, secret, unsigned_to)
WHERE l.topic = :topic AND l.publication = :publication AND l.lane = q.lane;
