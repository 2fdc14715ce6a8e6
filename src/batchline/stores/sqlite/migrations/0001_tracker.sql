-- Stage 3, the tracker: fanouts, what was added to them, and a bit for each item.

CREATE TABLE batchline_fanouts (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    salt INTEGER NOT NULL UNIQUE,
    parent INTEGER,
    parent_slot INTEGER,
    tolerate INTEGER,
    unsealed_for_us INTEGER NOT NULL,
    sealed_for_us INTEGER NOT NULL,
    tombstone_for_us INTEGER NOT NULL,
    opened_us INTEGER NOT NULL,
    active_us INTEGER NOT NULL,
    due_us INTEGER NOT NULL,
    total INTEGER NOT NULL DEFAULT 0,
    failed INTEGER NOT NULL DEFAULT 0,
    open_shards INTEGER NOT NULL DEFAULT 0,
    sealed_us INTEGER,
    completed_us INTEGER,
    failed_us INTEGER,
    expired_us INTEGER,
    told_to TEXT,
    state TEXT NOT NULL GENERATED ALWAYS AS (
        CASE
            WHEN expired_us IS NOT NULL THEN 'expired'
            WHEN failed_us IS NOT NULL THEN 'failed'
            WHEN completed_us IS NOT NULL THEN 'complete'
            WHEN sealed_us IS NOT NULL THEN 'sealed'
            ELSE 'open'
        END
    ) STORED,
    CHECK (open_shards >= 0 AND total >= 0 AND failed >= 0)
) STRICT;

CREATE INDEX batchline_fanouts_due ON batchline_fanouts (due_us);
CREATE INDEX batchline_fanouts_state ON batchline_fanouts (state, number);
CREATE INDEX batchline_fanouts_parent ON batchline_fanouts (parent, number) WHERE parent IS NOT NULL;
CREATE INDEX batchline_fanouts_told_to ON batchline_fanouts (told_to) WHERE told_to IS NOT NULL;

CREATE TABLE batchline_labels (
    fanout INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (fanout, name)
) STRICT, WITHOUT ROWID;

CREATE INDEX batchline_labels_value ON batchline_labels (name, value, fanout);

-- Counters of pending items.
CREATE TABLE batchline_shards (
    fanout INTEGER NOT NULL,
    shard INTEGER NOT NULL,
    pending INTEGER NOT NULL CHECK (pending >= 0),
    active_us INTEGER NOT NULL,
    PRIMARY KEY (fanout, shard)
) STRICT, WITHOUT ROWID;

CREATE TABLE batchline_adds (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    fanout INTEGER NOT NULL,
    add_id TEXT NOT NULL,
    count INTEGER NOT NULL,
    child INTEGER,
    UNIQUE (fanout, add_id)
) STRICT;

CREATE INDEX batchline_adds_fanout ON batchline_adds (fanout, number);

-- 64 items a row: a bit is 1 while its item is pending, and a row goes with its last one.
CREATE TABLE batchline_item_groups (
    slot INTEGER PRIMARY KEY,
    bits INTEGER NOT NULL
) STRICT;

CREATE TABLE batchline_failures (
    slot INTEGER NOT NULL,
    bits INTEGER NOT NULL,
    at_us INTEGER NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (slot, bits)
) STRICT, WITHOUT ROWID;
