-- Stage 3, the tracker: fanouts, what was added to them, and a bit for each item.

CREATE TABLE batchline_fanouts (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text COLLATE "C" NOT NULL UNIQUE,
    salt bigint NOT NULL UNIQUE,
    parent bigint,
    parent_slot bigint,
    tolerate bigint,
    unsealed_for_us bigint NOT NULL,
    sealed_for_us bigint NOT NULL,
    tombstone_for_us bigint NOT NULL,
    opened_us bigint NOT NULL,
    active_us bigint NOT NULL,
    due_us bigint NOT NULL,
    total bigint NOT NULL DEFAULT 0,
    failed bigint NOT NULL DEFAULT 0,
    open_shards integer NOT NULL DEFAULT 0,
    sealed_us bigint,
    completed_us bigint,
    failed_us bigint,
    expired_us bigint,
    told_to text COLLATE "C",
    state text COLLATE "C" NOT NULL GENERATED ALWAYS AS (
        CASE
            WHEN expired_us IS NOT NULL THEN 'expired'
            WHEN failed_us IS NOT NULL THEN 'failed'
            WHEN completed_us IS NOT NULL THEN 'complete'
            WHEN sealed_us IS NOT NULL THEN 'sealed'
            ELSE 'open'
        END
    ) STORED,
    CHECK (open_shards >= 0 AND total >= 0 AND failed >= 0)
);

CREATE INDEX batchline_fanouts_due ON batchline_fanouts (due_us);
CREATE INDEX batchline_fanouts_state ON batchline_fanouts (state, number);
CREATE INDEX batchline_fanouts_parent ON batchline_fanouts (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX batchline_fanouts_told_to ON batchline_fanouts (told_to) WHERE told_to IS NOT NULL;

CREATE TABLE batchline_labels (
    fanout bigint NOT NULL,
    name text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (fanout, name)
);

CREATE INDEX batchline_labels_value ON batchline_labels (name, value, fanout);

-- Counters of pending items. Every ack updates one: half of each page is left free, so that this happens in place.
CREATE TABLE batchline_shards (
    fanout bigint NOT NULL,
    shard integer NOT NULL,
    pending bigint NOT NULL CHECK (pending >= 0),
    active_us bigint NOT NULL,
    PRIMARY KEY (fanout, shard)
) WITH (fillfactor = 50);

CREATE TABLE batchline_adds (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    fanout bigint NOT NULL,
    add_id text COLLATE "C" NOT NULL,
    count bigint NOT NULL,
    child bigint,
    UNIQUE (fanout, add_id)
);

CREATE INDEX batchline_adds_fanout ON batchline_adds (fanout, number);

-- 64 items a row: a bit is 1 while its item is pending, and a row goes with its last one. Each page has room for new
-- versions of its rows, so that acks here and there touch no index and leave no growth behind.
CREATE TABLE batchline_item_groups (
    slot bigint PRIMARY KEY,
    bits bigint NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE batchline_failures (
    slot bigint NOT NULL,
    bits bigint NOT NULL,
    at_us bigint NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (slot, bits)
);
