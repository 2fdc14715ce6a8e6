-- Stage 4: a consumer's sessions, so that two processes of one name never hold the same message; and which lease an
-- attempt was, so that a repeated release is recognised.

CREATE TABLE batchline_sessions (
    topic bigint NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    seen_ms bigint NOT NULL,
    process text NOT NULL,
    PRIMARY KEY (topic, consumer, session)
);

ALTER TABLE batchline_spots ADD COLUMN session bigint;
ALTER TABLE batchline_attempts ADD COLUMN version integer NOT NULL DEFAULT 0;
