-- Stage 4, the timeline: topics, bundles of messages, and the spots on the line where they stand.
-- As in 0001: each statement can be repeated, and names are VARBINARY.

CREATE TABLE IF NOT EXISTS batchline_topics (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARBINARY(1020) NOT NULL,
    buckets INTEGER NOT NULL,
    max_ahead_us BIGINT NOT NULL,
    lease_us BIGINT NOT NULL,
    longest_lease_us BIGINT NOT NULL,
    max_attempts BIGINT,
    dead_letter VARBINARY(1020),
    rate_limit DOUBLE,
    deleted_ms BIGINT,
    UNIQUE KEY batchline_topics_name (name)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_producer_groups (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    name VARBINARY(1020) NOT NULL,
    UNIQUE KEY batchline_producer_groups_name (name)
) ENGINE = InnoDB;

-- When a producer group has used up what its topic allows it.
CREATE TABLE IF NOT EXISTS batchline_rates (
    topic BIGINT NOT NULL,
    producer_group BIGINT NOT NULL,
    used_up_to_us BIGINT NOT NULL,
    PRIMARY KEY (topic, producer_group)
) ENGINE = InnoDB;

-- Messages that one call created: ids and bodies, apart from what is scanned, and never changed.
CREATE TABLE IF NOT EXISTS batchline_bundles (
    number BIGINT PRIMARY KEY,
    topic BIGINT NOT NULL,
    producer_group BIGINT NOT NULL,
    created_ms BIGINT NOT NULL,
    ids MEDIUMTEXT CHARACTER SET utf8mb4 NOT NULL,
    content MEDIUMBLOB NOT NULL,
    KEY batchline_bundles_group (producer_group, number)
) ENGINE = InnoDB;

-- Where a message is whose id was chosen; ids made by us say it themselves.
CREATE TABLE IF NOT EXISTS batchline_message_ids (
    topic BIGINT NOT NULL,
    id VARBINARY(1020) NOT NULL,
    bundle BIGINT NOT NULL,
    place SMALLINT NOT NULL,
    PRIMARY KEY (topic, id)
) ENGINE = InnoDB;

-- The line. A spot is where messages of one bundle stand together, in one state; a bit for each.
CREATE TABLE IF NOT EXISTS batchline_spots (
    bundle BIGINT NOT NULL,
    number BIGINT NOT NULL,
    at_ms BIGINT NOT NULL,
    bits BIGINT NOT NULL,
    topic BIGINT NOT NULL,
    low_bucket INTEGER NOT NULL,
    high_bucket INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    segment SMALLINT NOT NULL,
    turn SMALLINT NOT NULL,
    size SMALLINT NOT NULL,
    consumer VARBINARY(1020),
    PRIMARY KEY (bundle, number),
    KEY batchline_spots_line (topic, segment, at_ms, turn, bundle, number),
    KEY batchline_spots_leased (topic, consumer, at_ms)
) ENGINE = InnoDB;

-- Leases that came to nothing.
CREATE TABLE IF NOT EXISTS batchline_attempts (
    bundle BIGINT NOT NULL,
    number BIGINT NOT NULL,
    bits BIGINT NOT NULL,
    attempt INTEGER NOT NULL,
    ended_ms BIGINT NOT NULL,
    consumer VARBINARY(1020) NOT NULL,
    ending VARBINARY(1020) NOT NULL,
    reason TEXT CHARACTER SET utf8mb4 NOT NULL,
    PRIMARY KEY (bundle, number)
) ENGINE = InnoDB;

-- How calls changed the number of messages that nobody holds, by slice of the line; and the sums of those that are old.
CREATE TABLE IF NOT EXISTS batchline_tallies (
    number BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
    topic BIGINT NOT NULL,
    counts MEDIUMTEXT CHARACTER SET ascii NOT NULL,
    KEY batchline_tallies_topic (topic, number)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_slices (
    topic BIGINT NOT NULL,
    slice BIGINT NOT NULL,
    count BIGINT NOT NULL,
    PRIMARY KEY (topic, slice)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_consumers (
    topic BIGINT NOT NULL,
    consumer VARBINARY(1020) NOT NULL,
    seen_ms BIGINT NOT NULL,
    drift_ms BIGINT NOT NULL,
    messages_per_second DOUBLE NOT NULL,
    PRIMARY KEY (topic, consumer)
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_brokers (
    name VARBINARY(1020) NOT NULL PRIMARY KEY,
    seen_ms BIGINT NOT NULL,
    ahead_ms BIGINT NOT NULL
) ENGINE = InnoDB;

-- Stage 3: the message to publish when a fanout is complete, as JSON. Only MariaDB knows ADD COLUMN IF NOT EXISTS.
SET @batchline_step = IF(
    EXISTS (
        SELECT 1 FROM information_schema.columns
        WHERE table_schema = DATABASE() AND table_name = 'batchline_fanouts' AND column_name = 'on_complete'
    ),
    'DO 0',
    'ALTER TABLE batchline_fanouts ADD COLUMN on_complete MEDIUMTEXT CHARACTER SET utf8mb4'
);
PREPARE batchline_step FROM @batchline_step;
EXECUTE batchline_step;
DEALLOCATE PREPARE batchline_step;

DROP PROCEDURE IF EXISTS batchline_ack_group;

-- Acknowledge pending items of one group of a fanout without a parent or a message: what nearly every single ack is. It is a procedure
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
            AND (asked_fanout IS NULL OR f.id = asked_fanout) AND f.parent IS NULL AND f.on_complete IS NULL
            AND f.expired_us IS NULL;
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
