-- The service: who may do what, and what running processes say of themselves.

-- Of a secret only its SHA-256 is kept. Lists of patterns are JSON.
CREATE TABLE batchline_tokens (
    id text COLLATE "C" PRIMARY KEY,
    name text NOT NULL,
    secret_hash text NOT NULL,
    producer_group text COLLATE "C",
    consumers text NOT NULL,
    topics text NOT NULL,
    admin boolean NOT NULL,
    created_ms bigint NOT NULL,
    expires_ms bigint,
    revoked_ms bigint
);

CREATE TABLE batchline_reports (
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    at_ms bigint NOT NULL,
    body text NOT NULL,
    PRIMARY KEY (kind, name, at_ms)
);

CREATE INDEX batchline_reports_at ON batchline_reports (at_ms);
