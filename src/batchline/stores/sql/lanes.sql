-- delete_lanes: Forget the lanes of a topic.
DELETE FROM batchline_parcel_lanes WHERE topic = :topic;

-- lanes: The lanes of a publication.
SELECT lane, published, delivered, secret, unsigned_to
FROM batchline_parcel_lanes WHERE topic = :topic AND publication = :publication ORDER BY lane;
