-- Stage 4, the timeline: topics, bundles of messages, and the spots on the line where they stand.

CREATE TABLE batchline_topics (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    buckets integer NOT NULL,
    max_ahead_us bigint NOT NULL,
    lease_us bigint NOT NULL,
    longest_lease_us bigint NOT NULL,
    max_attempts bigint,
    dead_letter text COLLATE "C",
    rate_limit double precision,
    deleted_ms bigint
);

CREATE TABLE batchline_producer_groups (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE
);

-- When a producer group has used up what its topic allows it.
CREATE TABLE batchline_rates (
    topic bigint NOT NULL,
    producer_group bigint NOT NULL,
    used_up_to_us bigint NOT NULL,
    PRIMARY KEY (topic, producer_group)
);

-- Messages that one call created: ids and bodies, apart from what is scanned, and never changed.
CREATE TABLE batchline_bundles (
    number bigint PRIMARY KEY,
    topic bigint NOT NULL,
    producer_group bigint NOT NULL,
    created_ms bigint NOT NULL,
    ids text COLLATE "C" NOT NULL,
    content bytea NOT NULL
);

CREATE INDEX batchline_bundles_group ON batchline_bundles (producer_group, number);

-- Where a message is whose id was chosen; ids made by us say it themselves.
CREATE TABLE batchline_message_ids (
    topic bigint NOT NULL,
    id text COLLATE "C" NOT NULL,
    bundle bigint NOT NULL,
    place smallint NOT NULL,
    PRIMARY KEY (topic, id)
);

-- The line. A spot is where messages of one bundle stand together, in one state; a bit for each.
CREATE TABLE batchline_spots (
    bundle bigint NOT NULL,
    number bigint NOT NULL,
    at_ms bigint NOT NULL,
    bits bigint NOT NULL,
    topic bigint NOT NULL,
    low_bucket integer NOT NULL,
    high_bucket integer NOT NULL,
    version integer NOT NULL,
    attempts integer NOT NULL,
    segment smallint NOT NULL,
    turn smallint NOT NULL,
    size smallint NOT NULL,
    consumer text COLLATE "C",
    PRIMARY KEY (bundle, number)
);

CREATE INDEX batchline_spots_line ON batchline_spots (topic, segment, at_ms, turn, bundle, number);
CREATE INDEX batchline_spots_leased ON batchline_spots (topic, consumer, at_ms) WHERE consumer IS NOT NULL;

-- Leases that came to nothing.
CREATE TABLE batchline_attempts (
    bundle bigint NOT NULL,
    number bigint NOT NULL,
    bits bigint NOT NULL,
    attempt integer NOT NULL,
    ended_ms bigint NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    ending text COLLATE "C" NOT NULL,
    reason text NOT NULL,
    PRIMARY KEY (bundle, number)
);

-- How calls changed the number of messages that nobody holds, by slice of the line; and the sums of those that are old.
CREATE TABLE batchline_tallies (
    number bigint GENERATED ALWAYS AS IDENTITY,
    topic bigint NOT NULL,
    counts text NOT NULL,
    PRIMARY KEY (topic, number)
);

CREATE TABLE batchline_slices (
    topic bigint NOT NULL,
    slice bigint NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (topic, slice)
);

CREATE TABLE batchline_consumers (
    topic bigint NOT NULL,
    consumer text COLLATE "C" NOT NULL,
    seen_ms bigint NOT NULL,
    drift_ms bigint NOT NULL,
    messages_per_second double precision NOT NULL,
    PRIMARY KEY (topic, consumer)
);

CREATE TABLE batchline_brokers (
    name text COLLATE "C" PRIMARY KEY,
    seen_ms bigint NOT NULL,
    ahead_ms bigint NOT NULL
);

-- Stage 3: the message to publish when a fanout is complete, as JSON.
ALTER TABLE batchline_fanouts ADD COLUMN on_complete text;
