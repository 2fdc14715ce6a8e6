-- Works with programs from migration 0007 on.
-- Parcels: each lane has a secret, by which workers tell parcels that publishing created from anything else; parcels up to
-- the number unsigned_to were published before, and are not signed. The table has another name, so that an older program
-- that is still running neither publishes parcels without a signature nor counts strays: what it does fails, and is done
-- again by a newer one. Topics on which parcels are published, and those for their dead letters, are internal.
-- As in 0001 and 0006: each statement can be repeated.

SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.tables
        WHERE table_schema = DATABASE() AND table_name = 'batchline_parcel_lanes'
    ),
    'DO 0',
    'RENAME TABLE batchline_lanes TO batchline_parcel_lanes'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'batchline_parcel_lanes' AND column_name = 'secret'
    ),
    'DO 0',
    'ALTER TABLE batchline_parcel_lanes ADD COLUMN secret VARBINARY(64)'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'batchline_parcel_lanes' AND column_name = 'unsigned_to'
    ),
    'DO 0',
    'ALTER TABLE batchline_parcel_lanes ADD COLUMN unsigned_to BIGINT NOT NULL DEFAULT 0'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

UPDATE batchline_parcel_lanes SET unsigned_to = published;

SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'batchline_topics' AND column_name = 'internal'
    ),
    'DO 0',
    'ALTER TABLE batchline_topics ADD COLUMN internal SMALLINT NOT NULL DEFAULT 0'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

UPDATE batchline_topics AS t
JOIN (
    SELECT DISTINCT n.name FROM batchline_topics AS n JOIN batchline_parcel_lanes AS l ON l.topic = n.number
    UNION
    SELECT DISTINCT CONCAT(n.name, '-dead') FROM batchline_topics AS n
    JOIN batchline_parcel_lanes AS l ON l.topic = n.number
) AS found ON found.name = t.name
SET t.internal = 1;
