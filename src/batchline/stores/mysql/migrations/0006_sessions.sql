-- Stage 4: a consumer's sessions, so that two processes of one name never hold the same message; and which lease an
-- attempt was, so that a repeated release is recognised.

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
