-- insert_lanes: New lanes, of which nothing is published.
INSERT IGNORE INTO batchline_lanes (topic, publication, lane) VALUES (:topic, :publication, :lane);

-- hold_lanes: How far lanes have come, locked until the transaction ends.
SELECT l.lane, l.published, l.delivered
FROM JSON_TABLE(:lanes, '$[*]' COLUMNS (lane INTEGER PATH '$')) AS q
STRAIGHT_JOIN batchline_lanes AS l FORCE INDEX (PRIMARY)
    ON l.topic = :topic AND l.publication = :publication AND l.lane = q.lane
FOR UPDATE;

-- write_lanes: How far lanes have come.
UPDATE JSON_TABLE(:rows, '$[*]' COLUMNS (
    lane INTEGER PATH '$[0]', published BIGINT PATH '$[1]', delivered BIGINT PATH '$[2]')) AS q
STRAIGHT_JOIN batchline_lanes AS l FORCE INDEX (PRIMARY)
    ON l.topic = :topic AND l.publication = :publication AND l.lane = q.lane
SET l.published = q.published, l.delivered = q.delivered;
