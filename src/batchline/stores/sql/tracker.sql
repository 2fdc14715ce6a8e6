-- write_fanout: All of a fanout that can change.
UPDATE batchline_fanouts
SET parent_slot = :parent_slot, total = :total, failed = :failed, open_shards = :open_shards, active_us = :active_us,
    due_us = :due_us, sealed_us = :sealed_us, completed_us = :completed_us, failed_us = :failed_us,
    expired_us = :expired_us, told_to = :told_to
WHERE number = :number;

-- delete_fanout: Forget a fanout.
DELETE FROM batchline_fanouts WHERE number = :fanout;

-- delete_shards: Forget a fanout's counters.
DELETE FROM batchline_shards WHERE fanout = :fanout;

-- delete_labels: Forget a fanout's labels.
DELETE FROM batchline_labels WHERE fanout = :fanout;

-- told: The fanouts whose end a call was told.
SELECT * FROM batchline_fanouts WHERE told_to = :call_id ORDER BY number;

-- unpropagated: Fanouts whose end a call was told, and whose parents have a pending item for them.
SELECT f.number
FROM batchline_fanouts AS f JOIN batchline_item_groups AS g ON g.slot = f.parent_slot
WHERE f.told_to = :call_id AND f.state IN ('complete', 'failed', 'expired')
ORDER BY f.number;

-- add_by_id: An add, with its fanout.
SELECT a.number, a.fanout, a.count, a.child, f.id, f.salt, f.expired_us
FROM batchline_adds AS a JOIN batchline_fanouts AS f ON f.number = a.fanout
WHERE a.fanout = :fanout AND a.add_id = :add_id;

-- shards_active_us: The last activity of any of a fanout's counters.
SELECT max(active_us) FROM batchline_shards WHERE fanout = :fanout;

-- status: A fanout and the sum of its counters, as of one moment.
SELECT f.*, p.id AS parent_id,
    (SELECT sum(s.pending) FROM batchline_shards AS s WHERE s.fanout = f.number) AS pending,
    (SELECT max(s.active_us) FROM batchline_shards AS s WHERE s.fanout = f.number) AS shards_active_us
FROM batchline_fanouts AS f LEFT JOIN batchline_fanouts AS p ON p.number = f.parent
WHERE f.id = :id;

-- list_fanouts: As `status`, for many; conditions and list_page follow.
SELECT f.*, p.id AS parent_id,
    (SELECT sum(s.pending) FROM batchline_shards AS s WHERE s.fanout = f.number) AS pending,
    (SELECT max(s.active_us) FROM batchline_shards AS s WHERE s.fanout = f.number) AS shards_active_us
FROM batchline_fanouts AS f LEFT JOIN batchline_fanouts AS p ON p.number = f.parent
WHERE f.number > :after;

-- count_fanouts: How many fanouts are in a state, up to so many.
SELECT COUNT(*) FROM (SELECT 1 AS one FROM batchline_fanouts WHERE state = :state LIMIT :most) AS q;

-- where_state: In this state.
AND f.state = :state;

-- where_opened_before_us: Opened before a moment.
AND f.opened_us < :opened_before_us;

-- where_parent: Children of a fanout.
AND f.parent = :parent;

-- where_before: Opened before another.
AND f.number < :before;

-- newest_list_page: In the order in which they were opened, the newest first.
ORDER BY f.number DESC LIMIT :limit;

-- newest_labelled_page: The same, in the order in which the index of labels has them.
ORDER BY l.fanout DESC LIMIT :limit;

-- list_page: In the order in which they were opened.
ORDER BY f.number LIMIT :limit;

-- labelled_page: As list_page, in the order in which the index of labels has them.
ORDER BY l.fanout LIMIT :limit;

-- due_fanouts: Fanouts that expiry is to look at.
SELECT number, id FROM batchline_fanouts WHERE due_us <= :now_us ORDER BY due_us LIMIT :limit;

-- postpone_fanout: Another moment for expiry to look.
UPDATE batchline_fanouts SET due_us = :due_us WHERE number = :number;

-- live_child: A child that is neither ended nor expired.
SELECT 1 FROM batchline_fanouts WHERE parent = :fanout AND state IN ('open', 'sealed') LIMIT 1;

-- adds_of: The first adds of a fanout.
SELECT number FROM batchline_adds WHERE fanout = :fanout ORDER BY number LIMIT :limit;

-- delete_add: Forget an add.
DELETE FROM batchline_adds WHERE number = :number;
