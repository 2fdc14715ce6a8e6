-- Stage 5, shared capacity: what is divided, who holds which partition of it, and what instances ask for.
-- As in 0001: each statement can be repeated, and names are VARBINARY.

CREATE TABLE IF NOT EXISTS batchline_resources (
    name VARBINARY(1020) NOT NULL PRIMARY KEY,
    size TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL
) ENGINE = InnoDB;

-- One that nobody holds has no holder; one whose time is over is as free.
CREATE TABLE IF NOT EXISTS batchline_partitions (
    resource VARBINARY(1020) NOT NULL,
    number INTEGER NOT NULL,
    holder VARBINARY(1020),
    until_ms BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (resource, number)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_askings (
    resource VARBINARY(1020) NOT NULL,
    instance VARBINARY(1020) NOT NULL,
    wanted BIGINT NOT NULL,
    held TEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    heard_ms BIGINT NOT NULL,
    PRIMARY KEY (resource, instance)
) ENGINE = InnoDB;
