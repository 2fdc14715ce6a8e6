-- How far the lanes of a publication have come: up to which number its parcels are on the timeline, and have arrived.
-- There is room for the next version of a row beside it, and no index changes.
CREATE TABLE batchline_lanes (
    topic bigint NOT NULL,
    publication text COLLATE "C" NOT NULL,
    lane integer NOT NULL,
    published bigint NOT NULL DEFAULT 0,
    delivered bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, publication, lane)
) WITH (fillfactor = 50);
