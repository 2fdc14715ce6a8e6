-- insert_topic: A new topic; nothing if the name is taken.
INSERT IGNORE INTO batchline_topics (
    name, buckets, max_ahead_us, lease_us, longest_lease_us, max_attempts, dead_letter, rate_limit, keep_us, internal
)
VALUES (
    :name, :buckets, :max_ahead_us, :lease_us, :longest_lease_us, :max_attempts, :dead_letter, :rate_limit, :keep_us,
    :internal
);

-- insert_producer_group: A new producer group; nothing if it is known.
INSERT IGNORE INTO batchline_producer_groups (name) VALUES (:name);

-- use_rate: What a producer group has used, locked.
SELECT used_up_to_us FROM batchline_rates WHERE topic = :topic AND producer_group = :producer_group FOR UPDATE;

-- write_rate: Note that.
INSERT INTO batchline_rates (topic, producer_group, used_up_to_us) VALUES (:topic, :producer_group, :used_up_to_us)
ON DUPLICATE KEY UPDATE used_up_to_us = VALUES(used_up_to_us);

-- insert_bundles: New bundles; nothing for a number that is taken.
INSERT IGNORE INTO batchline_bundles (number, topic, producer_group, created_ms, ids, content)
VALUES (:number, :topic, :producer_group, :created_ms, :ids, :content);

-- bundles_by_number: Bundles, with ids and bodies, and the names of their owners.
SELECT b.number, b.topic, b.producer_group, b.created_ms, b.ids, b.content, CAST(p.name AS CHAR CHARACTER SET utf8mb4)
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_bundles AS b FORCE INDEX (PRIMARY) ON b.number = q.number
STRAIGHT_JOIN batchline_producer_groups AS p ON p.number = b.producer_group;

-- content_sizes: How many bytes bundles have.
SELECT b.number, OCTET_LENGTH(b.content)
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_bundles AS b FORCE INDEX (PRIMARY) ON b.number = q.number;

-- owners_of: To whom bundles belong.
SELECT b.number, b.producer_group
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_bundles AS b FORCE INDEX (PRIMARY) ON b.number = q.number;

-- insert_message_ids: Chosen ids; nothing for one that is taken.
INSERT IGNORE INTO batchline_message_ids (topic, id, bundle, place) VALUES (:topic, :id, :bundle, :place);

-- message_ids: Where messages with chosen ids are.
SELECT m.id, m.bundle, m.place
FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS q
STRAIGHT_JOIN batchline_message_ids AS m FORCE INDEX (PRIMARY) ON m.topic = :topic AND m.id = CAST(q.id AS BINARY);

-- delete_message_ids: Free chosen ids, each only if its message is the one at this place.
DELETE m
FROM JSON_TABLE(:rows, '$[*]' COLUMNS (
    id VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]', bundle BIGINT PATH '$[1]', place SMALLINT PATH '$[2]'
)) AS q
STRAIGHT_JOIN batchline_message_ids AS m FORCE INDEX (PRIMARY) ON m.topic = :topic AND m.id = CAST(q.id AS BINARY)
WHERE m.bundle = q.bundle AND m.place = q.place;

-- insert_spots: New spots.
INSERT INTO batchline_spots (
    bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session, size
)
VALUES (
    :bundle, :number, :topic, :segment, :at_ms, :turn, :bits, :low_bucket, :high_bucket, :version, :attempts,
    :consumer, :session, :size
);

-- write_spots: Spots as they are to be, each only if it is what it was.
UPDATE JSON_TABLE(:rows, '$[*]' COLUMNS (
    bundle BIGINT PATH '$[0]', number BIGINT PATH '$[1]', topic BIGINT PATH '$[2]', segment SMALLINT PATH '$[3]',
    at_ms BIGINT PATH '$[4]', bits BIGINT PATH '$[6]', low_bucket INTEGER PATH '$[7]',
    high_bucket INTEGER PATH '$[8]', version INTEGER PATH '$[9]', attempts INTEGER PATH '$[10]',
    consumer VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[11]', session BIGINT PATH '$[12]',
    size SMALLINT PATH '$[13]', version_before INTEGER PATH '$[14]', bits_before BIGINT PATH '$[15]'
)) AS w
STRAIGHT_JOIN batchline_spots AS s FORCE INDEX (PRIMARY) ON s.bundle = w.bundle AND s.number = w.number
SET s.topic = w.topic, s.segment = w.segment, s.at_ms = w.at_ms, s.bits = w.bits,
    s.low_bucket = w.low_bucket, s.high_bucket = w.high_bucket, s.version = w.version, s.attempts = w.attempts,
    s.consumer = CAST(w.consumer AS BINARY), s.session = w.session, s.size = w.size
WHERE s.version = w.version_before AND s.bits = w.bits_before;

-- end_spots: Take spots off the line whose messages are all leased in this way, actively.
UPDATE JSON_TABLE(:rows, '$[*]' COLUMNS (
    bundle BIGINT PATH '$[0]', number BIGINT PATH '$[1]', version INTEGER PATH '$[2]', bits BIGINT PATH '$[3]',
    consumer VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[4]', topic VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[5]'
)) AS w
STRAIGHT_JOIN batchline_spots AS s FORCE INDEX (PRIMARY) ON s.bundle = w.bundle AND s.number = w.number
SET s.segment = -1, s.at_ms = :now_ms, s.consumer = NULL, s.session = NULL
WHERE s.version = w.version AND s.bits = w.bits AND s.consumer = CAST(w.consumer AS BINARY) AND s.at_ms > :now_ms
    AND s.topic = (SELECT t.number FROM batchline_topics AS t WHERE t.name = CAST(w.topic AS BINARY));

-- delete_spots: Forget spots.
DELETE s
FROM JSON_TABLE(:rows, '$[*]' COLUMNS (bundle BIGINT PATH '$[0]', number BIGINT PATH '$[1]')) AS q
STRAIGHT_JOIN batchline_spots AS s FORCE INDEX (PRIMARY) ON s.bundle = q.bundle AND s.number = q.number;

-- hold_due: Spots that are available, locked until the transaction ends, without waiting for anybody.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, CAST(s.consumer AS CHAR CHARACTER SET utf8mb4), s.session
FROM JSON_TABLE(:keys, '$[*]' COLUMNS (bundle BIGINT PATH '$[0]', number BIGINT PATH '$[1]')) AS q
STRAIGHT_JOIN batchline_spots AS s FORCE INDEX (PRIMARY) ON s.bundle = q.bundle AND s.number = q.number
WHERE s.at_ms <= :now_ms AND s.segment >= 0
FOR UPDATE SKIP LOCKED;

-- hold_spots: Spots, locked in the order given until the transaction ends.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, CAST(s.consumer AS CHAR CHARACTER SET utf8mb4), s.session
FROM JSON_TABLE(:keys, '$[*]' COLUMNS (bundle BIGINT PATH '$[0]', number BIGINT PATH '$[1]')) AS q
STRAIGHT_JOIN batchline_spots AS s FORCE INDEX (PRIMARY) ON s.bundle = q.bundle AND s.number = q.number
FOR UPDATE;

-- spots_of: All spots of bundles.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, s.consumer, s.session
FROM JSON_TABLE(:bundles, '$[*]' COLUMNS (bundle BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_spots AS s FORCE INDEX (PRIMARY) ON s.bundle = q.bundle;

-- hold_spots_of: All spots of bundles, locked in order until the transaction ends.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, s.consumer, s.session
FROM JSON_TABLE(:bundles, '$[*]' COLUMNS (bundle BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_spots AS s FORCE INDEX (PRIMARY) ON s.bundle = q.bundle
FOR UPDATE;

-- hold_exhausted: Spots whose lease ran out after so many attempts, locked until the transaction ends, without waiting.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots
WHERE topic = :topic AND consumer IS NOT NULL AND at_ms <= :now_ms AND attempts >= :max_attempts
LIMIT :limit FOR UPDATE SKIP LOCKED;

-- attempts_of: Leases that came to nothing, the oldest first.
SELECT a.bundle, a.number, a.bits, a.version, a.attempt, a.ended_ms, a.consumer, a.ending, a.reason
FROM JSON_TABLE(:bundles, '$[*]' COLUMNS (bundle BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_attempts AS a FORCE INDEX (PRIMARY) ON a.bundle = q.bundle
ORDER BY a.number;

-- insert_attempts: Leases that came to nothing.
INSERT INTO batchline_attempts (bundle, number, bits, version, attempt, ended_ms, consumer, ending, reason)
VALUES (:bundle, :number, :bits, :version, :attempt, :ended_ms, :consumer, :ending, :reason);

-- hold_tallies: Notes to be summed, locked; somebody else sums those that are left out.
SELECT number, counts FROM batchline_tallies WHERE topic = :topic ORDER BY number LIMIT :limit FOR UPDATE SKIP LOCKED;

-- delete_tallies: Forget notes that were summed.
DELETE t
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_tallies AS t FORCE INDEX (PRIMARY) ON t.number = q.number
WHERE t.topic = :topic;

-- add_slices: Add to sums; locked in order until the transaction ends.
INSERT INTO batchline_slices (topic, slice, count) VALUES (:topic, :slice, :count)
ON DUPLICATE KEY UPDATE count = count + VALUES(count);

-- tallies: Sums, so many slices together, and what was not summed yet: in one statement, for one becomes the other.
SELECT (slice - :origin) DIV :width AS part, SUM(count) AS count, '' AS counts FROM batchline_slices
WHERE topic = :topic AND slice >= :first AND slice < :last
GROUP BY part
UNION ALL
SELECT 0, 0, counts FROM batchline_tallies WHERE topic = :topic;

-- spot_counts: Messages that nobody holds, by how far they are behind the beginning, of one segment.
SELECT (at_ms - :from_ms) DIV :width_ms AS bin, SUM(size) AS count FROM batchline_spots
WHERE topic = :topic AND segment = {segment} AND at_ms >= :from_ms AND at_ms < :to_ms AND consumer IS NULL
GROUP BY bin;

-- hold_ended: Spots off the line, locked until the transaction ends, without waiting for anybody.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE topic = :topic AND segment = :segment AND at_ms < :before_ms
ORDER BY at_ms LIMIT :limit FOR UPDATE SKIP LOCKED;

-- hold_free: Spots on the line that nobody holds, locked until the transaction ends, without waiting for anybody.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE topic = :topic AND segment >= 0 AND (consumer IS NULL OR at_ms <= :now_ms)
LIMIT :limit FOR UPDATE SKIP LOCKED;

-- hold_bundles: Bundles, locked until the transaction ends, without waiting for anybody.
SELECT b.number
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_bundles AS b FORCE INDEX (PRIMARY) ON b.number = q.number
FOR UPDATE SKIP LOCKED;

-- delete_bundles: Forget bundles.
DELETE b
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_bundles AS b FORCE INDEX (PRIMARY) ON b.number = q.number;

-- delete_attempts: Forget the attempts of bundles.
DELETE a
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_attempts AS a FORCE INDEX (PRIMARY) ON a.bundle = q.number;

-- write_consumer: Note that a consumer was seen; of its speed, the best is kept.
INSERT INTO batchline_consumers (topic, consumer, seen_ms, drift_ms, messages_per_second)
VALUES (:topic, :consumer, :seen_ms, :drift_ms, :messages_per_second)
ON DUPLICATE KEY UPDATE seen_ms = VALUES(seen_ms), drift_ms = VALUES(drift_ms),
    messages_per_second = GREATEST(messages_per_second, VALUES(messages_per_second));

-- write_sessions: Note that sessions were seen; locked in order until the transaction ends.
INSERT INTO batchline_sessions (topic, consumer, session, seen_ms, process)
VALUES (:topic, :consumer, :session, :seen_ms, :process)
ON DUPLICATE KEY UPDATE seen_ms = VALUES(seen_ms);

-- hold_session: Keep a session from being forgotten.
SELECT 1 FROM batchline_sessions
WHERE topic = (SELECT number FROM batchline_topics WHERE name = :name) AND consumer = :consumer AND session = :session
LOCK IN SHARE MODE;

-- database_ms: What the database's clock shows.
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000;

-- write_broker: Note that a broker was seen.
INSERT INTO batchline_brokers (name, seen_ms, ahead_ms) VALUES (:name, :seen_ms, :ahead_ms)
ON DUPLICATE KEY UPDATE seen_ms = VALUES(seen_ms), ahead_ms = VALUES(ahead_ms);
