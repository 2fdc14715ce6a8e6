-- Stage 4: a consumer's sessions, so that two processes of one name never hold the same message; and which lease an
-- attempt was, so that a repeated release is recognised; and how long each topic keeps ids of messages that are done.

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
ALTER TABLE batchline_topics ADD COLUMN keep_us bigint NOT NULL DEFAULT 60000000;

-- Spots of ended messages now keep their bits, as the record of which messages ended. Those written before have none: their
-- messages are the ones whose ids are still taken. They count as done.
UPDATE batchline_spots AS s
SET bits = ended.bits, size = ended.size
FROM (
    SELECT m.topic, m.bundle, bit_or(1::bigint << m.place) AS bits, count(*) AS size
    FROM batchline_message_ids AS m
    WHERE NOT EXISTS (SELECT 1 FROM batchline_spots AS o WHERE o.bundle = m.bundle AND (o.bits >> m.place) & 1 = 1)
    GROUP BY m.topic, m.bundle
) AS ended
WHERE s.bundle = ended.bundle AND s.topic = ended.topic AND s.segment = -1 AND s.number = (
    SELECT max(o.number) FROM batchline_spots AS o WHERE o.bundle = s.bundle AND o.topic = s.topic AND o.segment = -1
);
