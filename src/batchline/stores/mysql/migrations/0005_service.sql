-- The service: who may do what, and what running processes say of themselves.
-- As in 0001: each statement can be repeated, and names are VARBINARY.

-- Of a secret only its SHA-256 is kept. Lists of patterns are JSON.
CREATE TABLE IF NOT EXISTS batchline_tokens (
    id VARBINARY(100) NOT NULL PRIMARY KEY,
    name VARBINARY(1020) NOT NULL,
    secret_hash VARBINARY(64) NOT NULL,
    producer_group VARBINARY(1020),
    consumers MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    topics MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    admin BOOLEAN NOT NULL,
    created_ms BIGINT NOT NULL,
    expires_ms BIGINT,
    revoked_ms BIGINT
) ENGINE = InnoDB;

CREATE TABLE IF NOT EXISTS batchline_reports (
    kind VARBINARY(100) NOT NULL,
    name VARBINARY(1020) NOT NULL,
    at_ms BIGINT NOT NULL,
    body MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
    PRIMARY KEY (kind, name, at_ms),
    KEY batchline_reports_at (at_ms)
) ENGINE = InnoDB;
