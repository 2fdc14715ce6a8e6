-- There is one writer at a time: whoever writes holds everything.

-- insert_lanes: New lanes, of which nothing is published.
INSERT INTO batchline_parcel_lanes (topic, publication, lane) VALUES (:topic, :publication, :lane) ON CONFLICT DO NOTHING;

-- hold_lanes: How far lanes have come.
SELECT lane, published, delivered, secret, unsigned_to FROM batchline_parcel_lanes
WHERE topic = :topic AND publication = :publication AND lane IN (SELECT value FROM json_each(:lanes))
ORDER BY lane;

-- write_lanes: How far lanes have come, and their secrets.
UPDATE batchline_parcel_lanes
SET published = :published, delivered = :delivered, secret = :secret, unsigned_to = :unsigned_to
WHERE topic = :topic AND publication = :publication AND lane = :lane;
