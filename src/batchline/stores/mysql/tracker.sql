-- fanouts_by_id: The fanouts of these ids.
SELECT f.*
FROM JSON_TABLE(:ids, '$[*]' COLUMNS (id VARCHAR(255) CHARACTER SET utf8mb4 PATH '$')) AS q
STRAIGHT_JOIN batchline_fanouts AS f ON f.id = CAST(q.id AS BINARY);

-- fanouts_by_salt: The fanouts of these salts.
SELECT f.*
FROM JSON_TABLE(:salts, '$[*]' COLUMNS (salt BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_fanouts AS f ON f.salt = q.salt;

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
ON DUPLICATE KEY UPDATE number = number;

-- insert_labels: The labels of a new fanout.
INSERT INTO batchline_labels (fanout, name, value)
SELECT :fanout, l.name, l.value
FROM JSON_TABLE(:labels, '$[*]' COLUMNS (
    name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]', value VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[1]'
)) AS l;

-- insert_add: A new add; nothing if the fanout has one of this id.
INSERT INTO batchline_adds (fanout, add_id, count, child) VALUES (:fanout, :add_id, :count, :child)
ON DUPLICATE KEY UPDATE number = number;

-- adds_by_number: Adds, with their fanouts.
SELECT a.number, a.fanout, a.count, a.child, f.id, f.salt, f.expired_us
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_adds AS a ON a.number = q.number
STRAIGHT_JOIN batchline_fanouts AS f ON f.number = a.fanout;

-- insert_full_groups: Groups of 64 pending items, from a slot on; made by the server, nothing is sent.
-- Three digits of base 64: neither MySQL nor MariaDB lets a recursion go deeper than 1,000 unless told to.
INSERT INTO batchline_item_groups (slot, bits)
WITH RECURSIVE digits (digit) AS (SELECT 0 UNION ALL SELECT digit + 1 FROM digits WHERE digit < 63)
SELECT :slot + c.digit * 4096 + b.digit * 64 + a.digit, ~0
FROM digits AS c STRAIGHT_JOIN digits AS b STRAIGHT_JOIN digits AS a
WHERE c.digit <= (:groups - 1) DIV 4096 AND b.digit <= (:groups - 1) DIV 64
    AND c.digit * 4096 + b.digit * 64 + a.digit < :groups;

-- insert_group: One group.
INSERT INTO batchline_item_groups (slot, bits) VALUES (:slot, CAST(:bits AS UNSIGNED));

-- hold_groups: The bits at these slots, locked in order until the transaction ends.
SELECT g.slot, g.bits
FROM JSON_TABLE(:slots, '$[*]' COLUMNS (slot BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_item_groups AS g ON g.slot = q.slot
FOR UPDATE;

-- write_groups: New bits.
UPDATE JSON_TABLE(:groups, '$[*]' COLUMNS (slot BIGINT PATH '$[0]', bits BIGINT PATH '$[1]')) AS w
STRAIGHT_JOIN batchline_item_groups AS g ON g.slot = w.slot
SET g.bits = CAST(w.bits AS UNSIGNED);

-- delete_groups: Forget groups whose items are all done.
DELETE g
FROM JSON_TABLE(:slots, '$[*]' COLUMNS (slot BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_item_groups AS g ON g.slot = q.slot;

-- insert_failures: What failed, and why.
INSERT INTO batchline_failures (slot, bits, reason, at_us)
SELECT f.slot, CAST(f.bits AS UNSIGNED), f.reason, f.at_us
FROM JSON_TABLE(:failures, '$[*]' COLUMNS (
    slot BIGINT PATH '$[0]', bits BIGINT PATH '$[1]', reason TEXT CHARACTER SET utf8mb4 PATH '$[2]',
    at_us BIGINT PATH '$[3]'
)) AS f;

-- grow_shards: Let shards count more items; locked in order until the transaction ends.
INSERT INTO batchline_shards (fanout, shard, pending, active_us)
SELECT :fanout, c.shard, c.pending, :now_us
FROM JSON_TABLE(:shards, '$[*]' COLUMNS (shard INTEGER PATH '$[0]', pending BIGINT PATH '$[1]')) AS c
ON DUPLICATE KEY UPDATE pending = batchline_shards.pending + VALUES(pending),
    active_us = GREATEST(batchline_shards.active_us, VALUES(active_us));

-- hold_shards: Counters, locked in order until the transaction ends.
SELECT s.fanout, s.shard, s.pending, s.active_us
FROM JSON_TABLE(:shards, '$[*]' COLUMNS (fanout BIGINT PATH '$[0]', shard INTEGER PATH '$[1]')) AS w
STRAIGHT_JOIN batchline_shards AS s ON s.fanout = w.fanout AND s.shard = w.shard
FOR UPDATE;

-- write_shards: New counts.
UPDATE JSON_TABLE(:shards, '$[*]' COLUMNS (
    fanout BIGINT PATH '$[0]', shard INTEGER PATH '$[1]', pending BIGINT PATH '$[2]', active_us BIGINT PATH '$[3]'
)) AS w
STRAIGHT_JOIN batchline_shards AS s ON s.fanout = w.fanout AND s.shard = w.shard
SET s.pending = w.pending, s.active_us = w.active_us;

-- labels: The labels of fanouts.
SELECT l.fanout, l.name, l.value
FROM JSON_TABLE(:fanouts, '$[*]' COLUMNS (fanout BIGINT PATH '$')) AS q
STRAIGHT_JOIN batchline_labels AS l ON l.fanout = q.fanout
ORDER BY l.fanout, l.name;

-- list_labelled: As list_fanouts, of those that have a label, and all the others that are asked for.
SELECT f.*, p.id AS parent_id,
    (SELECT sum(s.pending) FROM batchline_shards AS s WHERE s.fanout = f.number) AS pending,
    (SELECT max(s.active_us) FROM batchline_shards AS s WHERE s.fanout = f.number) AS shards_active_us
FROM batchline_labels AS l
STRAIGHT_JOIN batchline_fanouts AS f ON f.number = l.fanout
LEFT JOIN batchline_fanouts AS p ON p.number = f.parent
WHERE l.name = :name AND l.value = :value AND l.fanout > :after
    AND (
        SELECT count(*)
        FROM batchline_labels AS m
        WHERE m.fanout = l.fanout AND (m.name, m.value) IN (
            SELECT CAST(o.name AS BINARY), CAST(o.value AS BINARY)
            FROM JSON_TABLE(:others, '$[*]' COLUMNS (
                name VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[0]',
                value VARCHAR(255) CHARACTER SET utf8mb4 PATH '$[1]'
            )) AS o
        )
    ) = :how_many;

-- pending_groups: Groups with pending items, in order, from a slot on.
-- The index gives the adds in order, and each its groups: with an ORDER BY, all would be read and sorted first.
SELECT g.slot, g.bits
FROM batchline_adds AS a FORCE INDEX (batchline_adds_fanout)
STRAIGHT_JOIN batchline_item_groups AS g
    ON g.slot >= GREATEST(a.number << 18, :from_slot) AND g.slot < (a.number + 1) << 18
WHERE a.fanout = :fanout AND a.number >= :from_slot >> 18
LIMIT :limit;

-- failures: What failed, in order, from a slot on; as above.
SELECT x.slot, x.bits, x.reason, x.at_us
FROM batchline_adds AS a FORCE INDEX (batchline_adds_fanout)
STRAIGHT_JOIN batchline_failures AS x
    ON x.slot >= GREATEST(a.number << 18, :from_slot) AND x.slot < (a.number + 1) << 18
WHERE a.fanout = :fanout AND a.number >= :from_slot >> 18
LIMIT :limit;

-- clear_groups: Forget some groups of an add.
DELETE FROM batchline_item_groups WHERE slot >= :first AND slot < :after ORDER BY slot LIMIT :limit;

-- clear_failures: Forget some failures of an add.
DELETE FROM batchline_failures WHERE slot >= :first AND slot < :after ORDER BY slot LIMIT :limit;

-- ack_group: Acknowledge pending items of one group of a fanout without a parent or a message, in one round trip; see the migration.
CALL batchline_ack_group(:slot, :mask, :salt, :fanout, :shard, :count, :now_us, :call_id);
