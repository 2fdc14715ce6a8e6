-- fanouts_by_id: The fanouts of these ids.
SELECT * FROM batchline_fanouts WHERE id IN (SELECT value FROM json_each(:ids));

-- fanouts_by_salt: The fanouts of these salts.
SELECT * FROM batchline_fanouts WHERE salt IN (SELECT value FROM json_each(:salts));

-- hold_fanout: The fanout. There is one writer at a time: whoever writes holds everything.
SELECT * FROM batchline_fanouts WHERE number = :number;

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
SELECT :fanout, value ->> 0, value ->> 1 FROM json_each(:labels);

-- insert_add: A new add; nothing if the fanout has one of this id.
INSERT INTO batchline_adds (fanout, add_id, count, child) VALUES (:fanout, :add_id, :count, :child)
ON CONFLICT DO NOTHING
RETURNING number;

-- adds_by_number: Adds, with their fanouts.
SELECT a.number, a.fanout, a.count, a.child, f.id, f.salt, f.expired_us
FROM batchline_adds AS a JOIN batchline_fanouts AS f ON f.number = a.fanout
WHERE a.number IN (SELECT value FROM json_each(:numbers));

-- insert_full_groups: Groups of 64 pending items, from a slot on.
INSERT INTO batchline_item_groups (slot, bits)
WITH RECURSIVE places (place) AS (SELECT 0 UNION ALL SELECT place + 1 FROM places WHERE place < :groups - 1)
SELECT :slot + place, -1 FROM places;

-- insert_group: One group.
INSERT INTO batchline_item_groups (slot, bits) VALUES (:slot, :bits);

-- hold_groups: The bits at these slots.
SELECT g.slot, g.bits FROM json_each(:slots) AS q CROSS JOIN batchline_item_groups AS g ON g.slot = q.value;

-- write_groups: New bits.
UPDATE batchline_item_groups SET bits = w.value ->> 1
FROM json_each(:groups) AS w
WHERE slot = w.value ->> 0;

-- delete_groups: Forget groups whose items are all done.
DELETE FROM batchline_item_groups WHERE slot IN (SELECT value FROM json_each(:slots));

-- insert_failures: What failed, and why.
INSERT INTO batchline_failures (slot, bits, reason, at_us)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3 FROM json_each(:failures);

-- grow_shards: Let shards count more items.
INSERT INTO batchline_shards (fanout, shard, pending, active_us)
SELECT :fanout, value ->> 0, value ->> 1, :now_us FROM json_each(:shards) WHERE true
ON CONFLICT (fanout, shard) DO UPDATE
SET pending = pending + excluded.pending, active_us = max(active_us, excluded.active_us);

-- hold_shards: Counters.
SELECT s.fanout, s.shard, s.pending, s.active_us
FROM json_each(:shards) AS w
CROSS JOIN batchline_shards AS s ON s.fanout = w.value ->> 0 AND s.shard = w.value ->> 1;

-- write_shards: New counts.
UPDATE batchline_shards SET pending = w.value ->> 2, active_us = w.value ->> 3
FROM json_each(:shards) AS w
WHERE fanout = w.value ->> 0 AND shard = w.value ->> 1;

-- labels: The labels of fanouts.
SELECT fanout, name, value FROM batchline_labels
WHERE fanout IN (SELECT value FROM json_each(:fanouts)) ORDER BY fanout, name;

-- list_labelled: As list_fanouts, of those that have a label, and all the others that are asked for.
SELECT f.*, p.id AS parent_id,
    (SELECT sum(s.pending) FROM batchline_shards AS s WHERE s.fanout = f.number) AS pending,
    (SELECT max(s.active_us) FROM batchline_shards AS s WHERE s.fanout = f.number) AS shards_active_us
FROM batchline_labels AS l
CROSS JOIN batchline_fanouts AS f ON f.number = l.fanout
LEFT JOIN batchline_fanouts AS p ON p.number = f.parent
WHERE l.name = :name AND l.value = :value AND l.fanout > :after
    AND (
        SELECT count(*) FROM json_each(:others) AS o
        JOIN batchline_labels AS m ON m.fanout = l.fanout AND m.name = o.value ->> 0 AND m.value = o.value ->> 1
    ) = :how_many;

-- pending_groups: Groups with pending items, in order, from a slot on.
SELECT g.slot, g.bits
FROM batchline_adds AS a
CROSS JOIN batchline_item_groups AS g
    ON g.slot >= max(a.number << 18, :from_slot) AND g.slot < (a.number + 1) << 18
WHERE a.fanout = :fanout AND a.number >= :from_slot >> 18
ORDER BY a.number, g.slot LIMIT :limit;

-- failures: What failed, in order, from a slot on.
SELECT x.slot, x.bits, x.reason, x.at_us
FROM batchline_adds AS a
CROSS JOIN batchline_failures AS x
    ON x.slot >= max(a.number << 18, :from_slot) AND x.slot < (a.number + 1) << 18
WHERE a.fanout = :fanout AND a.number >= :from_slot >> 18
ORDER BY a.number, x.slot, x.bits LIMIT :limit;

-- clear_groups: Forget some groups of an add.
DELETE FROM batchline_item_groups WHERE slot IN (
    SELECT slot FROM batchline_item_groups WHERE slot >= :first AND slot < :after ORDER BY slot LIMIT :limit
);

-- clear_failures: Forget some failures of an add.
DELETE FROM batchline_failures WHERE slot IN (
    SELECT slot FROM batchline_failures WHERE slot >= :first AND slot < :after ORDER BY slot LIMIT :limit
);

-- ack_group: Acknowledge pending items of one group of a fanout without a parent or a message; anything else matches nothing.
UPDATE batchline_item_groups SET bits = bits & ~:mask
WHERE slot = :slot AND bits & :mask = :mask AND EXISTS (
    SELECT 1 FROM batchline_adds AS a JOIN batchline_fanouts AS f ON f.number = a.fanout
    WHERE a.number = :slot >> 18 AND a.child IS NULL AND f.salt = :salt AND (:fanout IS NULL OR f.id = :fanout)
        AND f.parent IS NULL AND f.on_complete IS NULL AND f.expired_us IS NULL
)
RETURNING bits, (SELECT fanout FROM batchline_adds WHERE number = :slot >> 18);

-- ack_shard: Let the group's counter count down.
UPDATE batchline_shards SET pending = pending - :count, active_us = max(active_us, :now_us)
WHERE fanout = :number AND shard = :shard
RETURNING pending;
