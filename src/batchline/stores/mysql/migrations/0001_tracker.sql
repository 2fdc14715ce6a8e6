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

DROP PROCEDURE IF EXISTS batchline_ack_group;

-- Acknowledge pending items of one group of a fanout without a parent: what nearly every single ack is. It is a procedure
-- so that it is one round trip, for there is no UPDATE with RETURNING here. Group, shard and fanout are locked in that
-- order; anything out of the ordinary answers NULL and changes nothing. A mask is passed as a signed integer.
CREATE PROCEDURE batchline_ack_group(
    IN asked_slot BIGINT, IN asked_mask BIGINT, IN asked_salt BIGINT, IN asked_fanout VARBINARY(1020),
    IN asked_shard INTEGER, IN asked_count BIGINT, IN moment_us BIGINT, IN call_id VARBINARY(1020)
)
BEGIN
    DECLARE mask BIGINT UNSIGNED DEFAULT CAST(asked_mask AS UNSIGNED);
    DECLARE held BIGINT UNSIGNED DEFAULT NULL;
    DECLARE its_fanout BIGINT DEFAULT NULL;
    DECLARE left_pending BIGINT DEFAULT NULL;
    DECLARE settled, told VARBINARY(1020) DEFAULT NULL;
    START TRANSACTION;
    SELECT bits INTO held FROM batchline_item_groups WHERE slot = asked_slot FOR UPDATE;
    IF held & mask = mask THEN
        SELECT a.fanout INTO its_fanout
        FROM batchline_adds AS a JOIN batchline_fanouts AS f ON f.number = a.fanout
        WHERE a.number = asked_slot >> 18 AND a.child IS NULL AND f.salt = asked_salt
            AND (asked_fanout IS NULL OR f.id = asked_fanout) AND f.parent IS NULL AND f.expired_us IS NULL;
    END IF;
    IF its_fanout IS NOT NULL THEN
        IF held = mask THEN
            DELETE FROM batchline_item_groups WHERE slot = asked_slot;
        ELSE
            UPDATE batchline_item_groups SET bits = held & ~mask WHERE slot = asked_slot;
        END IF;
        SELECT pending - asked_count INTO left_pending
        FROM batchline_shards WHERE fanout = its_fanout AND shard = asked_shard FOR UPDATE;
        UPDATE batchline_shards SET pending = left_pending, active_us = GREATEST(active_us, moment_us)
        WHERE fanout = its_fanout AND shard = asked_shard;
    END IF;
    IF left_pending = 0 THEN
        -- SET goes from left to right: what is asked for comes before it changes.
        UPDATE batchline_fanouts
        SET told_to = IF(state = 'sealed' AND open_shards = 1, call_id, told_to),
            completed_us = IF(
                sealed_us IS NOT NULL AND open_shards = 1 AND completed_us IS NULL AND failed_us IS NULL
                AND expired_us IS NULL, moment_us, completed_us
            ),
            active_us = GREATEST(active_us, moment_us),
            due_us = IF(
                expired_us IS NULL, active_us + IF(sealed_us IS NULL, unsealed_for_us, sealed_for_us), due_us
            ),
            open_shards = open_shards - 1
        WHERE number = its_fanout;
        SELECT id, told_to INTO settled, told FROM batchline_fanouts WHERE number = its_fanout;
    END IF;
    COMMIT;
    SELECT its_fanout, settled, told;
END;
