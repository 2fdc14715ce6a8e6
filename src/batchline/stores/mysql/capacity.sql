-- Rows are locked in the order of the numbers asked for, which is theirs: whoever waits holds only such as come before.

-- insert_resource: A new resource; nothing if the name is taken.
INSERT IGNORE INTO batchline_resources (name, size) VALUES (:name, :size);

-- hold_resource: What the partitions of a resource are worth, locked until the transaction ends.
SELECT size FROM batchline_resources WHERE name = :name FOR UPDATE;

-- insert_partitions: New partitions, which nobody holds.
INSERT IGNORE INTO batchline_partitions (resource, number) VALUES (:resource, :number);

-- hold_partitions: Partitions that an instance held last, locked until the transaction ends.
SELECT p.number, p.holder, p.until_ms
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number INTEGER PATH '$')) AS q
STRAIGHT_JOIN batchline_partitions AS p FORCE INDEX (PRIMARY) ON p.resource = :resource AND p.number = q.number
WHERE p.holder = :instance
FOR UPDATE;

-- hold_free_partitions: Those, and partitions that nobody holds, locked until the transaction ends.
SELECT p.number, p.holder, p.until_ms
FROM JSON_TABLE(:numbers, '$[*]' COLUMNS (number INTEGER PATH '$')) AS q
STRAIGHT_JOIN batchline_partitions AS p FORCE INDEX (PRIMARY) ON p.resource = :resource AND p.number = q.number
WHERE p.holder IS NULL OR p.holder = :instance OR p.until_ms <= :now_ms
FOR UPDATE;

-- write_partitions: Who holds partitions, and until when.
UPDATE JSON_TABLE(:numbers, '$[*]' COLUMNS (number INTEGER PATH '$')) AS q
STRAIGHT_JOIN batchline_partitions AS p FORCE INDEX (PRIMARY) ON p.resource = :resource AND p.number = q.number
SET p.holder = :holder, p.until_ms = :until_ms;

-- write_asking: What an instance says.
INSERT INTO batchline_askings (resource, instance, wanted, held, heard_ms)
VALUES (:resource, :instance, :wanted, :held, :heard_ms)
ON DUPLICATE KEY UPDATE wanted = :wanted, held = :held, heard_ms = :heard_ms;
