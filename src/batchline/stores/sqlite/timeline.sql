-- There is one writer at a time: whoever writes holds everything.

-- insert_topic: A new topic; nothing if the name is taken.
INSERT INTO batchline_topics (
    name, buckets, max_ahead_us, lease_us, longest_lease_us, max_attempts, dead_letter, rate_limit, keep_us, internal
)
VALUES (
    :name, :buckets, :max_ahead_us, :lease_us, :longest_lease_us, :max_attempts, :dead_letter, :rate_limit, :keep_us,
    :internal
)
ON CONFLICT DO NOTHING;

-- insert_producer_group: A new producer group; nothing if it is known.
INSERT INTO batchline_producer_groups (name) VALUES (:name) ON CONFLICT DO NOTHING;

-- use_rate: What a producer group has used.
SELECT used_up_to_us FROM batchline_rates WHERE topic = :topic AND producer_group = :producer_group;

-- write_rate: Note that.
INSERT INTO batchline_rates (topic, producer_group, used_up_to_us) VALUES (:topic, :producer_group, :used_up_to_us)
ON CONFLICT (topic, producer_group) DO UPDATE SET used_up_to_us = excluded.used_up_to_us;

-- insert_bundles: New bundles; nothing for a number that is taken.
INSERT INTO batchline_bundles (number, topic, producer_group, created_ms, ids, content)
VALUES (:number, :topic, :producer_group, :created_ms, :ids, :content)
ON CONFLICT DO NOTHING;

-- bundles_by_number: Bundles, with ids and bodies, and the names of their owners.
SELECT b.number, b.topic, b.producer_group, b.created_ms, b.ids, b.content, p.name
FROM json_each(:numbers) AS q
CROSS JOIN batchline_bundles AS b ON b.number = q.value
CROSS JOIN batchline_producer_groups AS p ON p.number = b.producer_group;

-- content_sizes: How many bytes bundles have; SQLite knows it without reading them.
SELECT number, length(content) FROM batchline_bundles
WHERE number IN (SELECT value FROM json_each(:numbers));

-- owners_of: To whom bundles belong.
SELECT number, producer_group FROM batchline_bundles
WHERE number IN (SELECT value FROM json_each(:numbers));

-- insert_message_ids: Chosen ids; nothing for one that is taken.
INSERT INTO batchline_message_ids (topic, id, bundle, place) VALUES (:topic, :id, :bundle, :place)
ON CONFLICT DO NOTHING;

-- message_ids: Where messages with chosen ids are.
SELECT id, bundle, place FROM batchline_message_ids
WHERE topic = :topic AND id IN (SELECT value FROM json_each(:ids));

-- delete_message_ids: Free chosen ids, each only if its message is the one at this place.
DELETE FROM batchline_message_ids WHERE topic = :topic AND id = :id AND bundle = :bundle AND place = :place;

-- insert_spots: New spots.
INSERT INTO batchline_spots (
    bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session, size
)
VALUES (
    :bundle, :number, :topic, :segment, :at_ms, :turn, :bits, :low_bucket, :high_bucket, :version, :attempts,
    :consumer, :session, :size
);

-- write_spots: Spots as they are to be, each only if it is what it was.
UPDATE batchline_spots
SET topic = :topic, segment = :segment, at_ms = :at_ms, bits = :bits, low_bucket = :low_bucket,
    high_bucket = :high_bucket, version = :version, attempts = :attempts, consumer = :consumer,
    session = :session, size = :size
WHERE bundle = :bundle AND number = :number AND version = :version_before AND bits = :bits_before;

-- end_spots: Take spots off the line whose messages are all leased in this way, actively.
UPDATE batchline_spots SET segment = -1, at_ms = :now_ms, consumer = NULL, session = NULL
WHERE bundle = :bundle AND number = :number AND version = :version AND bits = :bits AND consumer = :consumer
    AND at_ms > :now_ms AND +topic = (SELECT t.number FROM batchline_topics AS t WHERE t.name = :topic);

-- delete_spots: Forget spots.
DELETE FROM batchline_spots WHERE bundle = :bundle AND number = :number;

-- hold_due: Spots that are available.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, s.consumer, s.session
FROM json_each(:keys) AS q
CROSS JOIN batchline_spots AS s ON s.bundle = q.value ->> 0 AND s.number = q.value ->> 1
WHERE s.at_ms <= :now_ms AND s.segment >= 0;

-- hold_spots: Spots.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, s.consumer, s.session
FROM json_each(:keys) AS q
CROSS JOIN batchline_spots AS s ON s.bundle = q.value ->> 0 AND s.number = q.value ->> 1;

-- spots_of: All spots of bundles.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE bundle IN (SELECT value FROM json_each(:bundles));

-- hold_spots_of: All spots of bundles.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE bundle IN (SELECT value FROM json_each(:bundles));

-- hold_exhausted: Spots whose lease ran out after so many attempts.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots
WHERE topic = :topic AND consumer IS NOT NULL AND at_ms <= :now_ms AND attempts >= :max_attempts
LIMIT :limit;

-- attempts_of: Leases that came to nothing, the oldest first.
SELECT bundle, number, bits, version, attempt, ended_ms, consumer, ending, reason
FROM batchline_attempts WHERE bundle IN (SELECT value FROM json_each(:bundles)) ORDER BY number;

-- insert_attempts: Leases that came to nothing.
INSERT INTO batchline_attempts (bundle, number, bits, version, attempt, ended_ms, consumer, ending, reason)
VALUES (:bundle, :number, :bits, :version, :attempt, :ended_ms, :consumer, :ending, :reason);

-- hold_tallies: Notes to be summed.
SELECT number, counts FROM batchline_tallies WHERE topic = :topic ORDER BY number LIMIT :limit;

-- delete_tallies: Forget notes that were summed.
DELETE FROM batchline_tallies WHERE topic = :topic AND number IN (SELECT value FROM json_each(:numbers));

-- add_slices: Add to sums.
INSERT INTO batchline_slices (topic, slice, count) VALUES (:topic, :slice, :count)
ON CONFLICT (topic, slice) DO UPDATE SET count = count + excluded.count;

-- tallies: Sums, so many slices together, and what was not summed yet: in one statement, for one becomes the other.
SELECT (slice - :origin) / :width AS part, SUM(count) AS count, '' AS counts FROM batchline_slices
WHERE topic = :topic AND slice >= :first AND slice < :last
GROUP BY part
UNION ALL
SELECT 0, 0, counts FROM batchline_tallies WHERE topic = :topic;

-- spot_counts: Messages that nobody holds, by how far they are behind the beginning, of one segment.
SELECT (at_ms - :from_ms) / :width_ms AS bin, SUM(size) AS count FROM batchline_spots
WHERE topic = :topic AND segment = {segment} AND at_ms >= :from_ms AND at_ms < :to_ms AND consumer IS NULL
GROUP BY bin;

-- hold_ended: Spots off the line.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE topic = :topic AND segment = :segment AND at_ms < :before_ms
ORDER BY at_ms LIMIT :limit;

-- hold_free: Spots on the line that nobody holds.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE topic = :topic AND segment >= 0 AND (consumer IS NULL OR at_ms <= :now_ms)
LIMIT :limit;

-- hold_bundles: Bundles.
SELECT number FROM batchline_bundles WHERE number IN (SELECT value FROM json_each(:numbers));

-- delete_bundles: Forget bundles.
DELETE FROM batchline_bundles WHERE number IN (SELECT value FROM json_each(:numbers));

-- delete_attempts: Forget the attempts of bundles.
DELETE FROM batchline_attempts WHERE bundle IN (SELECT value FROM json_each(:numbers));

-- write_consumer: Note that a consumer was seen; of its speed, the best is kept.
INSERT INTO batchline_consumers (topic, consumer, seen_ms, drift_ms, messages_per_second)
VALUES (:topic, :consumer, :seen_ms, :drift_ms, :messages_per_second)
ON CONFLICT (topic, consumer) DO UPDATE
SET seen_ms = excluded.seen_ms, drift_ms = excluded.drift_ms,
    messages_per_second = max(messages_per_second, excluded.messages_per_second);

-- write_sessions: Note that sessions were seen.
INSERT INTO batchline_sessions (topic, consumer, session, seen_ms, process)
VALUES (:topic, :consumer, :session, :seen_ms, :process)
ON CONFLICT (topic, consumer, session) DO UPDATE SET seen_ms = excluded.seen_ms;

-- hold_session: Whoever writes holds every session.
SELECT 1 FROM batchline_sessions
WHERE topic = (SELECT number FROM batchline_topics WHERE name = :name) AND consumer = :consumer AND session = :session;

-- database_ms: What the database's clock shows.
SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER);

-- write_broker: Note that a broker was seen.
INSERT INTO batchline_brokers (name, seen_ms, ahead_ms) VALUES (:name, :seen_ms, :ahead_ms)
ON CONFLICT (name) DO UPDATE SET seen_ms = excluded.seen_ms, ahead_ms = excluded.ahead_ms;
