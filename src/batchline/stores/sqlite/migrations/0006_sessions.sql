-- Stage 4: a consumer's sessions, so that two processes of one name never hold the same message; and which lease an
-- attempt was, so that a repeated release is recognised.

CREATE TABLE batchline_sessions (
    topic INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    session INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL,
    process TEXT NOT NULL,
    PRIMARY KEY (topic, consumer, session)
) STRICT, WITHOUT ROWID;

ALTER TABLE batchline_spots ADD COLUMN session INTEGER;
ALTER TABLE batchline_attempts ADD COLUMN version INTEGER NOT NULL DEFAULT 0;
