-- Stage 5, shared capacity: what is divided, who holds which partition of it, and what instances ask for.

CREATE TABLE batchline_resources (
    name TEXT NOT NULL PRIMARY KEY,
    size TEXT NOT NULL
) STRICT;

-- One that nobody holds has no holder; one whose time is over is as free.
CREATE TABLE batchline_partitions (
    resource TEXT NOT NULL,
    number INTEGER NOT NULL,
    holder TEXT,
    until_ms INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (resource, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE batchline_askings (
    resource TEXT NOT NULL,
    instance TEXT NOT NULL,
    wanted INTEGER NOT NULL,
    held TEXT NOT NULL,
    heard_ms INTEGER NOT NULL,
    PRIMARY KEY (resource, instance)
) STRICT, WITHOUT ROWID;
