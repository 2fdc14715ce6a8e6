-- Stage 3, the tracker: fanouts, what was added to them, and a bit for each item.
-- DDL commits by itself here: each statement can be repeated, should the one after it not have been reached.
-- Names are VARBINARY, in UTF-8: only so are they compared to the character, trailing spaces included.

CREATE TABLE IF NOT EXISTS batchline_fanouts (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    id VARBINARY(1020) NOT NULL,
    salt BIGINT NOT NULL,
    parent BIGINT,
    parent_slot BIGINT,
    tolerate BIGINT,
    unsealed_for_us BIGINT NOT NULL,
    sealed_for_us BIGINT NOT NULL,
    tombstone_for_us BIGINT NOT NULL,
    opened_us BIGINT NOT NULL,
    active_us BIGINT NOT NULL,
    due_us BIGINT NOT NULL,
    total BIGINT NOT NULL DEFAULT 0,
    failed BIGINT NOT NULL DEFAULT 0,
    open_shards INTEGER NOT NULL DEFAULT 0,
    sealed_us BIGINT,
    completed_us BIGINT,
    failed_us BIGINT,
    expired_us BIGINT,
    told_to VARBINARY(1020),
    state VARBINARY(8) GENERATED ALWAYS AS (
        CASE
            WHEN expired_us IS NOT NULL THEN 'expired'
            WHEN failed_us IS NOT NULL THEN 'failed'
            WHEN completed_us IS NOT NULL THEN 'complete'
            WHEN sealed_us IS NOT NULL THEN 'sealed'
            ELSE 'open'
        END
    ) STORED,
    UNIQUE KEY batchline_fanouts_id (id),
    UNIQUE KEY batchline_fanouts_salt (salt),
    KEY batchline_fanouts_due (due_us),
    KEY batchline_fanouts_state (state, number),
    KEY batchline_fanouts_parent (parent, number),
    KEY batchline_fanouts_told_to (told_to),
    CHECK (open_shards >= 0 AND total >= 0 AND failed >= 0)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_labels (
    fanout BIGINT NOT NULL,
    name VARBINARY(1020) NOT NULL,
    value VARBINARY(1020) NOT NULL,
    PRIMARY KEY (fanout, name),
    KEY batchline_labels_value (name, value, fanout)
) ENGINE = InnoDB;

-- Counters of pending items.
CREATE TABLE IF NOT EXISTS batchline_shards (
    fanout BIGINT NOT NULL,
    shard INTEGER NOT NULL,
    pending BIGINT NOT NULL,
    active_us BIGINT NOT NULL,
    PRIMARY KEY (fanout, shard),
    CHECK (pending >= 0)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_adds (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    fanout BIGINT NOT NULL,
    add_id VARBINARY(1100) NOT NULL,
    count BIGINT NOT NULL,
    child BIGINT,
    UNIQUE KEY batchline_adds_add_id (fanout, add_id),
    KEY batchline_adds_fanout (fanout, number)
) ENGINE = InnoDB;

-- 64 items a row: a bit is 1 while its item is pending, and a row goes with its last one.
CREATE TABLE IF NOT EXISTS batchline_item_groups (
    slot BIGINT NOT NULL PRIMARY KEY,
    bits BIGINT UNSIGNED NOT NULL
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_failures (
    slot BIGINT NOT NULL,
    bits BIGINT UNSIGNED NOT NULL,
    at_us BIGINT NOT NULL,
    reason TEXT CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (slot, bits)
) ENGINE = InnoDB;
