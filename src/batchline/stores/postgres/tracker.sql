-- fanouts_by_id: The fanouts of these ids.
SELECT * FROM batchline_fanouts WHERE id = ANY(:ids);

-- fanouts_by_salt: The fanouts of these salts.
SELECT * FROM batchline_fanouts WHERE salt = ANY(:salts::bigint[]);

-- hold_fanout: The fanout, locked until the transaction ends.
SELECT * FROM batchline_fanouts WHERE number = :number FOR UPDATE;

-- insert_fanout: A new fanout; nothing if the id is taken.
INSERT INTO batchline_fanouts (
    id, salt, parent, tolerate, unsealed_for_us, sealed_for_us, tombstone_for_us, opened_us, active_us, due_us,
    on_complete
)
VALUES (
    :id, :salt, :parent, :tolerate, :unsealed_for_us, :sealed_for_us, :tombstone_for_us, :now_us, :now_us, :due_us,
    :on_complete
)
ON CONFLICT DO NOTHING
RETURNING number;

-- insert_labels: The labels of a new fanout.
INSERT INTO batchline_labels (fanout, name, value)
SELECT :fanout::bigint, l ->> 0, l ->> 1 FROM json_array_elements(:labels::json) AS l;

-- insert_add: A new add; nothing if the fanout has one of this id.
INSERT INTO batchline_adds (fanout, add_id, count, child) VALUES (:fanout, :add_id, :count, :child)
ON CONFLICT DO NOTHING
RETURNING number;

-- adds_by_number: Adds, with their fanouts.
SELECT a.number, a.fanout, a.count, a.child, f.id, f.salt, f.expired_us
FROM batchline_adds AS a JOIN batchline_fanouts AS f ON f.number = a.fanout
WHERE a.number = ANY(:numbers::bigint[]);

-- insert_full_groups: Groups of 64 pending items, from a slot on; made by the server, nothing is sent.
INSERT INTO batchline_item_groups (slot, bits)
SELECT :slot::bigint + place, -1 FROM generate_series(0, :groups::bigint - 1) AS place;

-- insert_group: One group.
INSERT INTO batchline_item_groups (slot, bits) VALUES (:slot, :bits);

-- hold_groups: The bits at these slots, locked in order until the transaction ends.
SELECT slot, bits FROM batchline_item_groups WHERE slot = ANY(:slots::bigint[]) ORDER BY slot FOR UPDATE;

-- write_groups: New bits.
UPDATE batchline_item_groups AS g SET bits = (w ->> 1)::bigint
FROM json_array_elements(:groups::json) AS w
WHERE g.slot = (w ->> 0)::bigint;

-- delete_groups: Forget groups whose items are all done.
DELETE FROM batchline_item_groups WHERE slot = ANY(:slots::bigint[]);

-- insert_failures: What failed, and why.
INSERT INTO batchline_failures (slot, bits, reason, at_us)
SELECT (f ->> 0)::bigint, (f ->> 1)::bigint, f ->> 2, (f ->> 3)::bigint FROM json_array_elements(:failures::json) AS f;

-- grow_shards: Let shards count more items; locked in order until the transaction ends.
INSERT INTO batchline_shards AS s (fanout, shard, pending, active_us)
SELECT :fanout::bigint, (c ->> 0)::integer, (c ->> 1)::bigint, :now_us::bigint FROM json_array_elements(:shards::json) AS c
ORDER BY (c ->> 0)::integer
ON CONFLICT (fanout, shard) DO UPDATE
SET pending = s.pending + excluded.pending, active_us = greatest(s.active_us, excluded.active_us);

-- hold_shards: Counters, locked in the order given until the transaction ends.
SELECT s.fanout, s.shard, s.pending, s.active_us
FROM json_array_elements(:shards::json) AS w
CROSS JOIN LATERAL (
    SELECT * FROM batchline_shards WHERE fanout = (w ->> 0)::bigint AND shard = (w ->> 1)::integer FOR UPDATE
) AS s;

-- write_shards: New counts.
UPDATE batchline_shards AS s SET pending = (w ->> 2)::bigint, active_us = (w ->> 3)::bigint
FROM json_array_elements(:shards::json) AS w
WHERE s.fanout = (w ->> 0)::bigint AND s.shard = (w ->> 1)::integer;

-- labels: The labels of fanouts.
SELECT fanout, name, value FROM batchline_labels WHERE fanout = ANY(:fanouts::bigint[]) ORDER BY fanout, name;

-- list_labelled: As list_fanouts, of those that have a label, and all the others that are asked for.
SELECT f.*, p.id AS parent_id,
    (SELECT sum(s.pending) FROM batchline_shards AS s WHERE s.fanout = f.number) AS pending,
    (SELECT max(s.active_us) FROM batchline_shards AS s WHERE s.fanout = f.number) AS shards_active_us
FROM batchline_labels AS l
JOIN batchline_fanouts AS f ON f.number = l.fanout
LEFT JOIN batchline_fanouts AS p ON p.number = f.parent
WHERE l.name = :name AND l.value = :value AND l.fanout > :after
    AND (
        SELECT count(*) FROM json_array_elements(:others::json) AS o
        JOIN batchline_labels AS m ON m.fanout = l.fanout AND m.name = o ->> 0 AND m.value = o ->> 1
    ) = :how_many;

-- pending_groups: Groups with pending items, in order, from a slot on.
SELECT g.slot, g.bits
FROM (
    SELECT number FROM batchline_adds WHERE fanout = :fanout AND number >= :from_slot::bigint >> 18 ORDER BY number
) AS a
CROSS JOIN LATERAL (
    SELECT slot, bits FROM batchline_item_groups
    WHERE slot >= greatest(a.number << 18, :from_slot::bigint) AND slot < (a.number + 1) << 18
    ORDER BY slot LIMIT :limit
) AS g
LIMIT :limit;

-- failures: What failed, in order, from a slot on.
SELECT x.slot, x.bits, x.reason, x.at_us
FROM (
    SELECT number FROM batchline_adds WHERE fanout = :fanout AND number >= :from_slot::bigint >> 18 ORDER BY number
) AS a
CROSS JOIN LATERAL (
    SELECT slot, bits, reason, at_us FROM batchline_failures
    WHERE slot >= greatest(a.number << 18, :from_slot::bigint) AND slot < (a.number + 1) << 18
    ORDER BY slot, bits LIMIT :limit
) AS x
LIMIT :limit;

-- clear_groups: Forget some groups of an add.
DELETE FROM batchline_item_groups WHERE slot = ANY(ARRAY(
    SELECT slot FROM batchline_item_groups WHERE slot >= :first AND slot < :after ORDER BY slot LIMIT :limit
));

-- clear_failures: Forget some failures of an add.
DELETE FROM batchline_failures WHERE slot = ANY(ARRAY(
    SELECT slot FROM batchline_failures WHERE slot >= :first AND slot < :after ORDER BY slot LIMIT :limit
));

-- ack_group: Acknowledge pending items of one group of a fanout without a parent or a message, in one statement and one round trip.
-- Groups, shard and fanout are locked in that order. Anything out of the ordinary matches nothing and changes nothing.
WITH held AS MATERIALIZED (
    SELECT g.slot, g.bits & ~:mask::bigint AS bits, a.fanout
    FROM batchline_item_groups AS g
    JOIN batchline_adds AS a ON a.number = :slot::bigint >> 18
    JOIN batchline_fanouts AS f ON f.number = a.fanout
    WHERE g.slot = :slot AND g.bits & :mask = :mask AND a.child IS NULL AND f.salt = :salt
        AND (:fanout::text IS NULL OR f.id = :fanout) AND f.parent IS NULL AND f.on_complete IS NULL
        AND f.expired_us IS NULL
    FOR UPDATE OF g
),
written AS (
    UPDATE batchline_item_groups AS g SET bits = held.bits FROM held WHERE g.slot = held.slot AND held.bits <> 0
),
deleted AS (
    DELETE FROM batchline_item_groups AS g USING held WHERE g.slot = held.slot AND held.bits = 0
),
counted AS (
    UPDATE batchline_shards AS s
    SET pending = s.pending - :count, active_us = greatest(s.active_us, :now_us)
    FROM held
    WHERE s.fanout = held.fanout AND s.shard = :shard
    RETURNING s.fanout, s.pending
),
settled AS (
    UPDATE batchline_fanouts AS f
    SET open_shards = f.open_shards - 1,
        active_us = greatest(f.active_us, :now_us),
        due_us = CASE
            WHEN f.expired_us IS NOT NULL THEN f.due_us
            WHEN f.sealed_us IS NULL THEN greatest(f.active_us, :now_us) + f.unsealed_for_us
            ELSE greatest(f.active_us, :now_us) + f.sealed_for_us
        END,
        completed_us = CASE WHEN f.state = 'sealed' AND f.open_shards = 1 THEN :now_us ELSE f.completed_us END,
        told_to = CASE WHEN f.state = 'sealed' AND f.open_shards = 1 THEN :call_id ELSE f.told_to END
    FROM counted
    WHERE f.number = counted.fanout AND counted.pending = 0
    RETURNING f.id, f.told_to
)
SELECT held.fanout, settled.id, settled.told_to FROM held LEFT JOIN settled ON true;
