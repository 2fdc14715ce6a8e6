-- Stage 4: a consumer's sessions, so that two processes of one name never hold the same message; and which lease an
-- attempt was, so that a repeated release is recognised; and how long each topic keeps ids of messages that are done.

CREATE TABLE IF NOT EXISTS batchline_sessions (
    topic BIGINT NOT NULL,
    consumer VARBINARY(1020) NOT NULL,
    session BIGINT NOT NULL,
    seen_ms BIGINT NOT NULL,
    process VARCHAR(255) CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (topic, consumer, session)
) ENGINE = InnoDB;

-- Only MariaDB knows ADD COLUMN IF NOT EXISTS.
SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'batchline_spots' AND column_name = 'session'
    ),
    'DO 0',
    'ALTER TABLE batchline_spots ADD COLUMN session BIGINT'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'batchline_attempts' AND column_name = 'version'
    ),
    'DO 0',
    'ALTER TABLE batchline_attempts ADD COLUMN version INTEGER NOT NULL DEFAULT 0'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'batchline_topics' AND column_name = 'keep_us'
    ),
    'DO 0',
    'ALTER TABLE batchline_topics ADD COLUMN keep_us BIGINT NOT NULL DEFAULT 60000000'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

-- Spots of ended messages now keep their bits, as the record of which messages ended. Those written before have none: their
-- messages are the ones whose ids are still taken. They count as done.
UPDATE batchline_spots AS s
JOIN (
    SELECT m.topic, m.bundle, CAST(BIT_OR(1 << m.place) AS SIGNED) AS bits, COUNT(*) AS size
    FROM batchline_message_ids AS m
    WHERE NOT EXISTS (SELECT 1 FROM batchline_spots AS o WHERE o.bundle = m.bundle AND (o.bits >> m.place) & 1 = 1)
    GROUP BY m.topic, m.bundle
) AS ended ON s.bundle = ended.bundle AND s.topic = ended.topic
JOIN (
    SELECT o.bundle, o.topic, MAX(o.number) AS number FROM batchline_spots AS o
    WHERE o.segment = -1 GROUP BY o.bundle, o.topic
) AS latest ON s.bundle = latest.bundle AND s.topic = latest.topic AND s.number = latest.number
SET s.bits = ended.bits, s.size = ended.size;
