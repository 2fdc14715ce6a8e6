-- There is one writer at a time: whoever writes holds everything.

-- insert_lanes: New lanes, of which nothing is published.
INSERT INTO batchline_lanes (topic, publication, lane) VALUES (:topic, :publication, :lane) ON CONFLICT DO NOTHING;

-- hold_lanes: How far lanes have come.
SELECT lane, published, delivered FROM batchline_lanes
WHERE topic = :topic AND publication = :publication AND lane IN (SELECT value FROM json_each(:lanes))
ORDER BY lane;

-- write_lanes: How far lanes have come.
UPDATE batchline_lanes SET published = :published, delivered = :delivered
WHERE topic = :topic AND publication = :publication AND lane = :lane;
