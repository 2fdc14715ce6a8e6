-- Rows are locked in the order of their numbers: whoever waits holds only such as come before.

-- insert_resource: A new resource; nothing if the name is taken.
INSERT INTO batchline_resources (name, size) VALUES (:name, :size) ON CONFLICT DO NOTHING;

-- hold_resource: What the partitions of a resource are worth, locked until the transaction ends.
SELECT size FROM batchline_resources WHERE name = :name FOR UPDATE;

-- insert_partitions: New partitions, which nobody holds.
INSERT INTO batchline_partitions (resource, number)
SELECT :resource::text, * FROM unnest(:number::integer[])
ON CONFLICT DO NOTHING;

-- hold_partitions: Partitions that an instance held last, locked until the transaction ends.
SELECT number, holder, until_ms FROM batchline_partitions
WHERE resource = :resource AND holder = :instance AND number = ANY(:numbers::integer[])
ORDER BY number FOR UPDATE;

-- hold_free_partitions: Those, and partitions that nobody holds, locked until the transaction ends.
SELECT number, holder, until_ms FROM batchline_partitions
WHERE resource = :resource AND (holder IS NULL OR holder = :instance OR until_ms <= :now_ms)
    AND number = ANY(:numbers::integer[])
ORDER BY number FOR UPDATE;

-- write_partitions: Who holds partitions, and until when.
UPDATE batchline_partitions SET holder = :holder, until_ms = :until_ms
WHERE resource = :resource AND number = ANY(:numbers::integer[]);

-- write_asking: What an instance says.
INSERT INTO batchline_askings (resource, instance, wanted, held, heard_ms)
VALUES (:resource, :instance, :wanted, :held, :heard_ms)
ON CONFLICT (resource, instance) DO UPDATE
SET wanted = excluded.wanted, held = excluded.held, heard_ms = excluded.heard_ms;
