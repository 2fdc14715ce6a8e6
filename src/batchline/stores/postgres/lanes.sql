-- insert_lanes: New lanes, of which nothing is published.
INSERT INTO batchline_lanes (topic, publication, lane)
SELECT :topic::bigint, :publication::text, * FROM unnest(:lane::integer[])
ON CONFLICT DO NOTHING;

-- hold_lanes: How far lanes have come, locked until the transaction ends.
SELECT lane, published, delivered FROM batchline_lanes
WHERE topic = :topic AND publication = :publication AND lane = ANY(:lanes::integer[])
ORDER BY lane FOR UPDATE;

-- write_lanes: How far lanes have come.
UPDATE batchline_lanes AS l SET published = q.published, delivered = q.delivered
FROM unnest(:lane::integer[], :published::bigint[], :delivered::bigint[]) AS q (lane, published, delivered)
WHERE l.topic = :topic AND l.publication = :publication AND l.lane = q.lane;
