-- topics: All topics.
SELECT * FROM batchline_topics ORDER BY name;

-- topic: The topic of a name.
SELECT * FROM batchline_topics WHERE name = :name;

-- topic_with_newest: The topic of a name, and the newest session of a consumer that was seen between two moments.
SELECT t.*, (
    SELECT MAX(s.session) FROM batchline_sessions AS s
    WHERE s.topic = t.number AND s.consumer = :consumer AND s.seen_ms BETWEEN :from_ms AND :to_ms
) AS newest
FROM batchline_topics AS t WHERE t.name = :name;

-- write_topic: New rules.
UPDATE batchline_topics
SET max_ahead_us = :max_ahead_us, lease_us = :lease_us, longest_lease_us = :longest_lease_us,
    max_attempts = :max_attempts, dead_letter = :dead_letter, rate_limit = :rate_limit,
    keep_us = :keep_us, internal = :internal
WHERE number = :number;

-- delete_topic: Mark a topic as one that is being deleted.
UPDATE batchline_topics SET deleted_ms = :now_ms WHERE number = :topic AND deleted_ms IS NULL;

-- remove_topic: Forget a topic.
DELETE FROM batchline_topics WHERE number = :topic;

-- remove_tallies: Forget the counts of a topic.
DELETE FROM batchline_tallies WHERE topic = :topic;

-- remove_slices: Forget the counts of a topic.
DELETE FROM batchline_slices WHERE topic = :topic;

-- remove_consumers: Forget the consumers of a topic.
DELETE FROM batchline_consumers WHERE topic = :topic;

-- remove_sessions: Forget the sessions of consumers of a topic.
DELETE FROM batchline_sessions WHERE topic = :topic;

-- remove_rates: Forget what producer groups have used of a topic.
DELETE FROM batchline_rates WHERE topic = :topic;

-- producer_group: The number of a producer group.
SELECT number FROM batchline_producer_groups WHERE name = :name;

-- bundles_of_group: The bundles of a producer group, in order.
SELECT number FROM batchline_bundles
WHERE producer_group = :producer_group AND number >= :from_number ORDER BY number LIMIT :limit;

-- due_in_segment: Spots on a stretch of one segment of the line.
SELECT at_ms, turn, bundle, number, size
FROM batchline_spots
WHERE topic = :topic AND segment = {segment} AND at_ms >= :from_ms AND at_ms <= :to_ms
    AND high_bucket >= :low_bucket AND low_bucket <= :high_bucket;

-- due_after: Those after one of them.
AND (
    at_ms > :after_ms OR turn > :after_turn
    OR (turn = :after_turn AND (bundle > :after_bundle OR (bundle = :after_bundle AND number > :after_number)))
);

-- due_order: Oldest first.
ORDER BY at_ms, turn, bundle, number LIMIT :limit;

-- leased_spots: What a consumer holds.
SELECT bundle, number, topic, segment, at_ms, turn, bits, low_bucket, high_bucket, version, attempts, consumer, session
FROM batchline_spots WHERE topic = :topic AND consumer = :consumer AND at_ms > :after_ms ORDER BY at_ms, turn, bundle, number;

-- insert_tally: How a call changed the counts of slices.
INSERT INTO batchline_tallies (topic, counts) VALUES (:topic, :counts);

-- count_spots: Messages that nobody holds, in a range of moments of one segment.
SELECT SUM(size) FROM batchline_spots
WHERE topic = :topic AND segment = {segment} AND at_ms >= :from_ms AND at_ms < :to_ms AND consumer IS NULL;

-- leased_counts: Messages whose last lease ends in a range of moments.
SELECT SUM(size) FROM batchline_spots
WHERE topic = :topic AND consumer IS NOT NULL AND at_ms >= :from_ms AND at_ms < :to_ms;

-- has_spots: Whether anything of a topic is left.
SELECT 1 FROM batchline_spots WHERE topic = :topic LIMIT 1;

-- consumers: The consumers of a topic that were seen since a moment.
SELECT consumer, seen_ms, drift_ms, messages_per_second
FROM batchline_consumers WHERE topic = :topic AND seen_ms >= :since_ms ORDER BY consumer;

-- delete_consumer: Forget a consumer.
DELETE FROM batchline_consumers WHERE topic = :topic AND consumer = :consumer;

-- forget_consumers: Forget consumers that nobody has seen since.
DELETE FROM batchline_consumers WHERE seen_ms < :before_ms;

-- sessions: The sessions of consumers that were seen since a moment.
SELECT consumer, session, seen_ms, process FROM batchline_sessions WHERE topic = :topic AND seen_ms >= :since_ms;

-- session_numbers: Which of these numbers sessions of a consumer have, seen or not.
SELECT session FROM batchline_sessions
WHERE topic = :topic AND consumer = :consumer AND session BETWEEN :first AND :last;

-- delete_session: Forget a session.
DELETE FROM batchline_sessions WHERE topic = :topic AND consumer = :consumer AND session = :session;

-- forget_sessions: Forget sessions that were not seen since.
DELETE FROM batchline_sessions WHERE seen_ms < :before_ms;

-- brokers: The brokers that were seen since a moment.
SELECT name, seen_ms, ahead_ms FROM batchline_brokers WHERE seen_ms >= :since_ms ORDER BY name;

-- forget_brokers: Forget brokers that nobody has seen since.
DELETE FROM batchline_brokers WHERE seen_ms < :before_ms;
