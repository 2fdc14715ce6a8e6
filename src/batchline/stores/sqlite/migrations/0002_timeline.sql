-- Stage 4, the timeline: topics, bundles of messages, and the spots on the line where they stand.

CREATE TABLE batchline_topics (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    buckets INTEGER NOT NULL,
    max_ahead_us INTEGER NOT NULL,
    lease_us INTEGER NOT NULL,
    longest_lease_us INTEGER NOT NULL,
    max_attempts INTEGER,
    dead_letter TEXT,
    rate_limit REAL,
    deleted_ms INTEGER
) STRICT;

CREATE TABLE batchline_producer_groups (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE
) STRICT;

-- When a producer group has used up what its topic allows it.
CREATE TABLE batchline_rates (
    topic INTEGER NOT NULL,
    producer_group INTEGER NOT NULL,
    used_up_to_us INTEGER NOT NULL,
    PRIMARY KEY (topic, producer_group)
) STRICT, WITHOUT ROWID;

-- Messages that one call created: ids and bodies, apart from what is scanned, and never changed.
CREATE TABLE batchline_bundles (
    number INTEGER PRIMARY KEY,
    topic INTEGER NOT NULL,
    producer_group INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    ids TEXT NOT NULL,
    content BLOB NOT NULL
) STRICT;

CREATE INDEX batchline_bundles_group ON batchline_bundles (producer_group, number);

-- Where a message is whose id was chosen; ids made by us say it themselves.
CREATE TABLE batchline_message_ids (
    topic INTEGER NOT NULL,
    id TEXT NOT NULL,
    bundle INTEGER NOT NULL,
    place INTEGER NOT NULL,
    PRIMARY KEY (topic, id)
) STRICT, WITHOUT ROWID;

-- The line. A spot is where messages of one bundle stand together, in one state; a bit for each.
CREATE TABLE batchline_spots (
    bundle INTEGER NOT NULL,
    number INTEGER NOT NULL,
    at_ms INTEGER NOT NULL,
    bits INTEGER NOT NULL,
    topic INTEGER NOT NULL,
    low_bucket INTEGER NOT NULL,
    high_bucket INTEGER NOT NULL,
    version INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    segment INTEGER NOT NULL,
    turn INTEGER NOT NULL,
    size INTEGER NOT NULL,
    consumer TEXT,
    PRIMARY KEY (bundle, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX batchline_spots_line ON batchline_spots (topic, segment, at_ms, turn, bundle, number);
CREATE INDEX batchline_spots_leased ON batchline_spots (topic, consumer, at_ms) WHERE consumer IS NOT NULL;

-- Leases that came to nothing.
CREATE TABLE batchline_attempts (
    bundle INTEGER NOT NULL,
    number INTEGER NOT NULL,
    bits INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    ended_ms INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    ending TEXT NOT NULL,
    reason TEXT NOT NULL,
    PRIMARY KEY (bundle, number)
) STRICT, WITHOUT ROWID;

-- How calls changed the number of messages that nobody holds, by slice of the line; and the sums of those that are old.
CREATE TABLE batchline_tallies (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    topic INTEGER NOT NULL,
    counts TEXT NOT NULL
) STRICT;

CREATE INDEX batchline_tallies_topic ON batchline_tallies (topic, number);

CREATE TABLE batchline_slices (
    topic INTEGER NOT NULL,
    slice INTEGER NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (topic, slice)
) STRICT, WITHOUT ROWID;

CREATE TABLE batchline_consumers (
    topic INTEGER NOT NULL,
    consumer TEXT NOT NULL,
    seen_ms INTEGER NOT NULL,
    drift_ms INTEGER NOT NULL,
    messages_per_second REAL NOT NULL,
    PRIMARY KEY (topic, consumer)
) STRICT, WITHOUT ROWID;

CREATE TABLE batchline_brokers (
    name TEXT NOT NULL PRIMARY KEY,
    seen_ms INTEGER NOT NULL,
    ahead_ms INTEGER NOT NULL
) STRICT;

-- Stage 3: the message to publish when a fanout is complete, as JSON.
ALTER TABLE batchline_fanouts ADD COLUMN on_complete TEXT;
