-- The service: who may do what, and what running processes say of themselves.

-- Of a secret only its SHA-256 is kept. Lists of patterns are JSON.
CREATE TABLE batchline_tokens (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    secret_hash TEXT NOT NULL,
    producer_group TEXT,
    consumers TEXT NOT NULL,
    topics TEXT NOT NULL,
    admin INTEGER NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER,
    revoked_ms INTEGER
) STRICT;

CREATE TABLE batchline_reports (
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    at_ms INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (kind, name, at_ms)
) STRICT, WITHOUT ROWID;

CREATE INDEX batchline_reports_at ON batchline_reports (at_ms);
