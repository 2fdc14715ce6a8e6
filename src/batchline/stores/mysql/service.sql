-- insert_token: A new token; nothing if there is one of that id.
INSERT IGNORE INTO batchline_tokens (
    id, name, secret_hash, producer_group, consumers, topics, admin, created_ms, expires_ms, revoked_ms
) VALUES (
    :id, :name, :secret_hash, :producer_group, :consumers, :topics, :admin, :created_ms, :expires_ms, :revoked_ms
);

-- insert_reports: What processes say.
INSERT IGNORE INTO batchline_reports (kind, name, at_ms, body) VALUES (:kind, :name, :at_ms, :body);

-- forget_reports: Forget what was said before a moment, the oldest first.
DELETE FROM batchline_reports WHERE at_ms < :before_ms ORDER BY at_ms, kind, name LIMIT :most;
