-- insert_lanes: New lanes, of which nothing is published.
INSERT IGNORE INTO batchline_parcel_lanes (topic, publication, lane) VALUES (:topic, :publication, :lane);

-- hold_lanes: How far lanes have come, locked until the transaction ends.
SELECT l.lane, l.published, l.delivered, l.secret, l.unsigned_to
FROM JSON_TABLE(:lanes, '$[*]' COLUMNS (lane INTEGER PATH '$')) AS q
STRAIGHT_JOIN batchline_parcel_lanes AS l FORCE INDEX (PRIMARY)
    ON l.topic = :topic AND l.publication = :publication AND l.lane = q.lane
FOR UPDATE;

-- write_lanes: How far lanes have come, and their secrets.
UPDATE JSON_TABLE(:rows, '$[*]' COLUMNS (
    lane INTEGER PATH '$[0]', published BIGINT PATH '$[1]', delivered BIGINT PATH '$[2]',
    secret VARCHAR(64) PATH '$[3]', unsigned_to BIGINT PATH '$[4]')) AS q
STRAIGHT_JOIN batchline_parcel_lanes AS l FORCE INDEX (PRIMARY)
    ON l.topic = :topic AND l.publication = :publication AND l.lane = q.lane
SET l.published = q.published, l.delivered = q.delivered, l.secret = q.secret, l.unsigned_to = q.unsigned_to;
