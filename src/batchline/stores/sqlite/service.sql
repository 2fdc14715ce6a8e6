-- insert_token: A new token; nothing if there is one of that id.
INSERT INTO batchline_tokens (
    id, name, secret_hash, producer_group, consumers, topics, admin, created_ms, expires_ms, revoked_ms
) VALUES (
    :id, :name, :secret_hash, :producer_group, :consumers, :topics, :admin, :created_ms, :expires_ms, :revoked_ms
) ON CONFLICT DO NOTHING;

-- insert_reports: What processes say.
INSERT INTO batchline_reports (kind, name, at_ms, body) VALUES (:kind, :name, :at_ms, :body) ON CONFLICT DO NOTHING;

-- forget_reports: Forget what was said before a moment, the oldest first.
DELETE FROM batchline_reports WHERE (kind, name, at_ms) IN (
    SELECT kind, name, at_ms FROM batchline_reports WHERE at_ms < :before_ms ORDER BY at_ms, kind, name LIMIT :most
);
