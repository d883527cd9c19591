"""Who may ask for what, what was changed by whom, and which requests have been answered already."""

from typing import Any

import peewee

TABLES = """
CREATE TABLE api_token (
    name VARCHAR(64) NOT NULL PRIMARY KEY,
    digest VARCHAR(64) NOT NULL UNIQUE,
    scopes VARCHAR(40) NOT NULL,
    created_on {moment} NOT NULL,
    created_by VARCHAR(80) NOT NULL,
    expires_on {moment},
    last_used_on {moment},
    revoked_on {moment}
);
CREATE TABLE audit_entry (
    id VARCHAR(36) NOT NULL PRIMARY KEY,
    at {moment} NOT NULL,
    who VARCHAR(80) NOT NULL,
    action VARCHAR(40) NOT NULL,
    subject VARCHAR(120) NOT NULL,
    state_before TEXT,
    state_after TEXT
);
CREATE INDEX audit_entry_subject ON audit_entry (subject, id);
CREATE TABLE idempotency_key (
    caller VARCHAR(80) NOT NULL,
    key VARCHAR(255) NOT NULL,
    fingerprint VARCHAR(64) NOT NULL,
    message_ids TEXT NOT NULL,
    created_on {moment} NOT NULL,
    PRIMARY KEY (caller, key)
);
CREATE INDEX idempotency_key_age ON idempotency_key (created_on);
"""


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    for statement in TABLES.format(moment=moment).split(";"):
        if statement.strip():
            db.execute_sql(statement)
