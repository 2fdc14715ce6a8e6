-- There is one writer at a time: whoever writes holds everything.

-- insert_resource: A new resource; nothing if the name is taken.
INSERT INTO batchline_resources (name, size) VALUES (:name, :size) ON CONFLICT DO NOTHING;

-- hold_resource: What the partitions of a resource are worth.
SELECT size FROM batchline_resources WHERE name = :name;

-- insert_partitions: New partitions, which nobody holds.
INSERT INTO batchline_partitions (resource, number) VALUES (:resource, :number) ON CONFLICT DO NOTHING;

-- hold_partitions: Partitions that an instance held last.
SELECT number, holder, until_ms FROM batchline_partitions
WHERE resource = :resource AND holder = :instance AND number IN (SELECT value FROM json_each(:numbers))
ORDER BY number;

-- hold_free_partitions: Those, and partitions that nobody holds.
SELECT number, holder, until_ms FROM batchline_partitions
WHERE resource = :resource AND (holder IS NULL OR holder = :instance OR until_ms <= :now_ms)
    AND number IN (SELECT value FROM json_each(:numbers))
ORDER BY number;

-- write_partitions: Who holds partitions, and until when.
UPDATE batchline_partitions SET holder = :holder, until_ms = :until_ms
WHERE resource = :resource AND number IN (SELECT value FROM json_each(:numbers));

-- write_asking: What an instance says.
INSERT INTO batchline_askings (resource, instance, wanted, held, heard_ms)
VALUES (:resource, :instance, :wanted, :held, :heard_ms)
ON CONFLICT (resource, instance) DO UPDATE
SET wanted = excluded.wanted, held = excluded.held, heard_ms = excluded.heard_ms;
