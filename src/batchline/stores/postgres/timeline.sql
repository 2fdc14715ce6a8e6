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

-- use_rate: What a producer group has used, locked.
SELECT used_up_to_us FROM batchline_rates WHERE topic = :topic AND producer_group = :producer_group FOR UPDATE;

-- write_rate: Note that.
INSERT INTO batchline_rates (topic, producer_group, used_up_to_us) VALUES (:topic, :producer_group, :used_up_to_us)
ON CONFLICT (topic, producer_group) DO UPDATE SET used_up_to_us = excluded.used_up_to_us;

-- insert_bundles: New bundles; nothing for a number that is taken.
INSERT INTO batchline_bundles (number, topic, producer_group, created_ms, ids, content)
SELECT * FROM unnest(
    :number::bigint[], :topic::bigint[], :producer_group::bigint[], :created_ms::bigint[], :ids::text[],
    :content::bytea[]
)
ON CONFLICT DO NOTHING;

-- bundles_by_number: Bundles, with ids and bodies, and the names of their owners.
SELECT b.number, b.topic, b.producer_group, b.created_ms, b.ids, b.content, p.name
FROM batchline_bundles AS b JOIN batchline_producer_groups AS p ON p.number = b.producer_group
WHERE b.number = ANY(:numbers::bigint[]);

-- content_sizes: How many bytes bundles have; a large one is not read for that.
SELECT number, octet_length(content) FROM batchline_bundles WHERE number = ANY(:numbers::bigint[]);

-- owners_of: To whom bundles belong.
SELECT number, producer_group FROM batchline_bundles WHERE number = ANY(:numbers::bigint[]);

-- insert_message_ids: Chosen ids; nothing for one that is taken.
INSERT INTO batchline_message_ids (topic, id, bundle, place)
SELECT :topic::bigint, * FROM unnest(:id::text[], :bundle::bigint[], :place::smallint[])
ON CONFLICT DO NOTHING;

-- message_ids: Where messages with chosen ids are.
SELECT id, bundle, place FROM batchline_message_ids WHERE topic = :topic AND id = ANY(:ids);

-- delete_message_ids: Free chosen ids, each only if its message is the one at this place.
DELETE FROM batchline_message_ids AS m
USING unnest(:id::text[], :bundle::bigint[], :place::smallint[]) AS q (id, bundle, place)
WHERE m.topic = :topic AND m.id = q.id AND m.bundle = q.bundle AND m.place = q.place;

-- insert_spots: New spots.
INSERT INTO batchline_spots (
    bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session, size
)
SELECT * FROM unnest(
    :bundle::bigint[], :number::bigint[], :topic::bigint[], :segment::smallint[], :at_ms::bigint[], :turn::smallint[],
    :bits::bigint[], :low_bucket::integer[], :high_bucket::integer[], :version::integer[],
    :attempts::integer[], :consumer::text[], :session::bigint[], :size::smallint[]
);

-- write_spots: Spots as they are to be, each only if it is what it was.
UPDATE batchline_spots AS s
SET topic = w.topic, segment = w.segment, at_ms = w.at_ms, bits = w.bits, low_bucket = w.low_bucket,
    high_bucket = w.high_bucket, version = w.version, attempts = w.attempts, consumer = w.consumer, session = w.session,
    size = w.size
FROM unnest(
    :bundle::bigint[], :number::bigint[], :topic::bigint[], :segment::smallint[], :at_ms::bigint[], :turn::smallint[],
    :bits::bigint[], :low_bucket::integer[], :high_bucket::integer[], :version::integer[],
    :attempts::integer[], :consumer::text[], :session::bigint[], :size::smallint[],
    :version_before::integer[], :bits_before::bigint[]
) AS w (
    bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session, size,
    version_before, bits_before
)
WHERE s.bundle = w.bundle AND s.number = w.number AND s.version = w.version_before AND s.bits = w.bits_before;

-- end_spots: Take spots off the line whose messages are all leased in this way, actively.
-- Consumer, moment and topic are compared so that no index on them can be used: whatever statistics say, there is one spot a key.
UPDATE batchline_spots AS s
SET segment = -1, at_ms = :now_ms, consumer = NULL, session = NULL
FROM unnest(
    :bundle::bigint[], :number::bigint[], :version::integer[], :bits::bigint[], :consumer::text[], :topic::text[]
) AS w (bundle, number, version, bits, consumer, topic)
WHERE s.bundle = w.bundle AND s.number = w.number AND s.version = w.version AND s.bits = w.bits
    AND s.consumer IS NOT DISTINCT FROM w.consumer AND s.at_ms - :now_ms > 0
    AND s.topic IS NOT DISTINCT FROM (SELECT t.number FROM batchline_topics AS t WHERE t.name = w.topic);

-- delete_spots: Forget spots.
DELETE FROM batchline_spots AS s
USING unnest(:bundle::bigint[], :number::bigint[]) AS q (bundle, number)
WHERE s.bundle = q.bundle AND s.number = q.number;

-- hold_due: Spots that are available, locked until the transaction ends, without waiting for anybody.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, s.consumer, s.session
FROM unnest(:bundle::bigint[], :number::bigint[]) AS q (bundle, number)
JOIN batchline_spots AS s ON s.bundle = q.bundle AND s.number = q.number
WHERE s.at_ms - :now_ms <= 0 AND s.segment >= 0
FOR UPDATE OF s SKIP LOCKED;

-- hold_spots: Spots, locked in the order given until the transaction ends.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, s.consumer, s.session
FROM unnest(:bundle::bigint[], :number::bigint[]) AS q (bundle, number)
CROSS JOIN LATERAL (
    SELECT * FROM batchline_spots WHERE bundle = q.bundle AND number = q.number FOR UPDATE
) AS s;

-- spots_of: All spots of bundles.
SELECT s.bundle, s.number, s.topic, s.segment, s.at_ms, s.turn, s.bits, s.low_bucket, s.high_bucket, s.version,
    s.attempts, s.consumer, s.session
FROM unnest(:bundles::bigint[]) AS q (bundle)
CROSS JOIN LATERAL (SELECT * FROM batchline_spots WHERE bundle = q.bundle OFFSET 0) AS s;

-- hold_spots_of: All spots of bundles, locked in order until the transaction ends.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE bundle = ANY(:bundles::bigint[]) ORDER BY bundle, number FOR UPDATE;

-- hold_exhausted: Spots whose lease ran out after so many attempts, locked until the transaction ends, without waiting.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots
WHERE topic = :topic AND consumer IS NOT NULL AND at_ms <= :now_ms AND attempts >= :max_attempts
LIMIT :limit FOR UPDATE SKIP LOCKED;

-- attempts_of: Leases that came to nothing, the oldest first.
SELECT bundle, number, bits, version, attempt, ended_ms, consumer, ending, reason
FROM batchline_attempts WHERE bundle = ANY(:bundles::bigint[]) ORDER BY number;

-- insert_attempts: Leases that came to nothing.
INSERT INTO batchline_attempts (bundle, number, bits, version, attempt, ended_ms, consumer, ending, reason)
SELECT * FROM unnest(
    :bundle::bigint[], :number::bigint[], :bits::bigint[], :version::integer[], :attempt::integer[], :ended_ms::bigint[], :consumer::text[],
    :ending::text[], :reason::text[]
);

-- hold_tallies: Notes to be summed, locked; somebody else sums those that are left out.
SELECT number, counts FROM batchline_tallies WHERE topic = :topic ORDER BY number LIMIT :limit FOR UPDATE SKIP LOCKED;

-- delete_tallies: Forget notes that were summed.
DELETE FROM batchline_tallies WHERE topic = :topic AND number = ANY(:numbers::bigint[]);

-- add_slices: Add to sums; locked in order until the transaction ends.
INSERT INTO batchline_slices AS s (topic, slice, count)
SELECT :topic::bigint, * FROM unnest(:slice::bigint[], :count::bigint[])
ON CONFLICT (topic, slice) DO UPDATE SET count = s.count + excluded.count;

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

-- hold_ended: Spots off the line, locked until the transaction ends, without waiting for anybody.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE topic = :topic AND segment = :segment AND at_ms < :before_ms
ORDER BY at_ms LIMIT :limit FOR UPDATE SKIP LOCKED;

-- hold_free: Spots on the line that nobody holds, locked until the transaction ends, without waiting for anybody.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE topic = :topic AND segment >= 0 AND (consumer IS NULL OR at_ms <= :now_ms)
LIMIT :limit FOR UPDATE SKIP LOCKED;

-- hold_bundles: Bundles, locked until the transaction ends, without waiting for anybody.
SELECT number FROM batchline_bundles WHERE number = ANY(:numbers::bigint[]) FOR UPDATE SKIP LOCKED;

-- delete_bundles: Forget bundles.
DELETE FROM batchline_bundles WHERE number = ANY(:numbers::bigint[]);

-- delete_attempts: Forget the attempts of bundles.
DELETE FROM batchline_attempts WHERE bundle = ANY(:numbers::bigint[]);

-- write_consumer: Note that a consumer was seen; of its speed, the best is kept.
INSERT INTO batchline_consumers AS c (topic, consumer, seen_ms, drift_ms, messages_per_second)
VALUES (:topic, :consumer, :seen_ms, :drift_ms, :messages_per_second)
ON CONFLICT (topic, consumer) DO UPDATE
SET seen_ms = excluded.seen_ms, drift_ms = excluded.drift_ms,
    messages_per_second = greatest(c.messages_per_second, excluded.messages_per_second);

-- write_sessions: Note that sessions were seen; locked in order until the transaction ends.
INSERT INTO batchline_sessions (topic, consumer, session, seen_ms, process)
SELECT :topic::bigint, * FROM unnest(:consumer::text[], :session::bigint[], :seen_ms::bigint[], :process::text[])
ON CONFLICT (topic, consumer, session) DO UPDATE SET seen_ms = excluded.seen_ms;

-- hold_session: Keep a session from being forgotten; that it was seen may be noted all the same.
SELECT 1 FROM batchline_sessions
WHERE topic = (SELECT number FROM batchline_topics WHERE name = :name) AND consumer = :consumer AND session = :session
FOR KEY SHARE;

-- database_ms: What the database's clock shows.
SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint;

-- write_broker: Note that a broker was seen.
INSERT INTO batchline_brokers (name, seen_ms, ahead_ms) VALUES (:name, :seen_ms, :ahead_ms)
ON CONFLICT (name) DO UPDATE SET seen_ms = excluded.seen_ms, ahead_ms = excluded.ahead_ms;
