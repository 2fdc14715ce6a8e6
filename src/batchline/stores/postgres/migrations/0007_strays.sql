-- Works with programs from migration 0007 on.
-- Parcels: each lane has a secret, by which workers tell parcels that publishing created from anything else; parcels up to
-- the number unsigned_to were published before, and are not signed. The table has another name, so that an older program
-- that is still running neither publishes parcels without a signature nor counts strays: what it does fails, and is done
-- again by a newer one. Topics on which parcels are published, and those for their dead letters, are internal.

ALTER TABLE batchline_lanes RENAME TO batchline_parcel_lanes;
ALTER TABLE batchline_parcel_lanes ADD COLUMN secret text;
ALTER TABLE batchline_parcel_lanes ADD COLUMN unsigned_to bigint NOT NULL DEFAULT 0;
UPDATE batchline_parcel_lanes SET unsigned_to = published;

ALTER TABLE batchline_topics ADD COLUMN internal smallint NOT NULL DEFAULT 0;
UPDATE batchline_topics SET internal = 1
WHERE name IN (
    SELECT t.name FROM batchline_topics AS t
    WHERE EXISTS (SELECT 1 FROM batchline_parcel_lanes AS l WHERE l.topic = t.number)
    UNION ALL
    SELECT t.name || '-dead' FROM batchline_topics AS t
    WHERE EXISTS (SELECT 1 FROM batchline_parcel_lanes AS l WHERE l.topic = t.number)
);
