-- Stage 5, shared capacity: what is divided, who holds which partition of it, and what instances ask for.

CREATE TABLE batchline_resources (
    name text COLLATE "C" PRIMARY KEY,
    size text NOT NULL
);

-- One that nobody holds has no holder; one whose time is over is as free. There is room for the next version of a row
-- beside it, and no index changes: so what a renewal leaves behind is cleared away by the next.
CREATE TABLE batchline_partitions (
    resource text COLLATE "C" NOT NULL,
    number integer NOT NULL,
    holder text COLLATE "C",
    until_ms bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (resource, number)
) WITH (fillfactor = 50);

CREATE TABLE batchline_askings (
    resource text COLLATE "C" NOT NULL,
    instance text COLLATE "C" NOT NULL,
    wanted bigint NOT NULL,
    held text NOT NULL,
    heard_ms bigint NOT NULL,
    PRIMARY KEY (resource, instance)
) WITH (fillfactor = 50);
