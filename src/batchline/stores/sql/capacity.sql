-- resources: All resources, by name.
SELECT name, size FROM batchline_resources ORDER BY name;

-- write_resource: Another size.
UPDATE batchline_resources SET size = :size WHERE name = :name;

-- partitions: All partitions of a resource, in order.
SELECT number, holder, until_ms FROM batchline_partitions WHERE resource = :resource ORDER BY number;

-- askings: What instances have said since a moment.
SELECT instance, wanted, held, heard_ms
FROM batchline_askings WHERE resource = :resource AND heard_ms >= :since_ms ORDER BY instance;

-- delete_asking: Forget what an instance has said.
DELETE FROM batchline_askings WHERE resource = :resource AND instance = :instance;

-- forget_askings: Forget what was said before a moment.
DELETE FROM batchline_askings WHERE resource = :resource AND heard_ms < :before_ms;
