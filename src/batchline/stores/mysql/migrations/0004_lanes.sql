-- How far the lanes of a publication have come: up to which number its parcels are on the timeline, and have arrived.
-- As in 0001: each statement can be repeated, and names are VARBINARY.
CREATE TABLE IF NOT EXISTS batchline_lanes (
    topic BIGINT NOT NULL,
    publication VARBINARY(1020) NOT NULL,
    lane INTEGER NOT NULL,
    published BIGINT NOT NULL DEFAULT 0,
    delivered BIGINT NOT NULL DEFAULT 0,
    PRIMARY KEY (topic, publication, lane)
) ENGINE = InnoDB;
