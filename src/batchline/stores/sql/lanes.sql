-- delete_lanes: Forget the lanes of a topic.
DELETE FROM batchline_lanes WHERE topic = :topic;

-- lanes: How far the lanes of a publication have come.
SELECT lane, published, delivered
FROM batchline_lanes WHERE topic = :topic AND publication = :publication ORDER BY lane;
