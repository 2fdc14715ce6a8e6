-- How far the lanes of a publication have come: up to which number its parcels are on the timeline, and have arrived.
CREATE TABLE batchline_lanes (
    topic INTEGER NOT NULL,
    publication TEXT NOT NULL,
    lane INTEGER NOT NULL,
    published INTEGER NOT NULL DEFAULT 0,
    delivered INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, publication, lane)
) STRICT, WITHOUT ROWID;
