-- token: The token of an id, revoked or not.
SELECT id, name, secret_hash, producer_group, consumers, topics, admin, created_ms, expires_ms, revoked_ms
FROM batchline_tokens WHERE id = :id;

-- tokens: All tokens, revoked or not, the oldest first.
SELECT id, name, secret_hash, producer_group, consumers, topics, admin, created_ms, expires_ms, revoked_ms
FROM batchline_tokens ORDER BY created_ms, id;

-- any_token: A row if there is a token, revoked or not.
SELECT 1 FROM batchline_tokens LIMIT 1;

-- revoke_token: End a token; one that has been ended stays as it is.
UPDATE batchline_tokens SET revoked_ms = :revoked_ms WHERE id = :id AND revoked_ms IS NULL;

-- reports: What processes have said from a moment on.
SELECT kind, name, at_ms, body FROM batchline_reports WHERE at_ms >= :from_ms ORDER BY at_ms, kind, name;

-- reports_of_kind: What processes of a kind have said from a moment on.
SELECT kind, name, at_ms, body
FROM batchline_reports WHERE at_ms >= :from_ms AND kind = :kind ORDER BY at_ms, kind, name;

-- latest_reports: The last that each process has said, if it was from a moment on.
SELECT r.kind, r.name, r.at_ms, r.body
FROM (
    SELECT kind, name, max(at_ms) AS at_ms FROM batchline_reports WHERE at_ms >= :from_ms GROUP BY kind, name
) AS q
INNER JOIN batchline_reports AS r ON r.kind = q.kind AND r.name = q.name AND r.at_ms = q.at_ms
ORDER BY r.kind, r.name;
