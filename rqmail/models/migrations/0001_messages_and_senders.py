"""Messages with content and recipients, system mailboxes, tenant mail settings."""

from typing import Any

import peewee

#: ``{moment}`` is the only type the two databases spell differently.
TABLES = """
CREATE TABLE message (
    id VARCHAR(36) NOT NULL PRIMARY KEY,
    sender VARCHAR(80) NOT NULL,
    status VARCHAR(10) NOT NULL,
    priority SMALLINT NOT NULL,
    subject TEXT NOT NULL,
    recipient_count INTEGER NOT NULL,
    created_on {moment} NOT NULL,
    requested_on {moment} NOT NULL,
    scheduled_on {moment} NOT NULL,
    expires_on {moment},
    job_id VARCHAR(36),
    claim VARCHAR(36),
    lease_until {moment},
    mailbox_key VARCHAR(320),
    attempted_on {moment},
    sent_on {moment},
    attempts INTEGER NOT NULL,
    deferrals INTEGER NOT NULL,
    waiting_for VARCHAR(40),
    last_error TEXT,
    attempt_log TEXT NOT NULL
);
CREATE TABLE message_content (
    message_id VARCHAR(36) NOT NULL PRIMARY KEY REFERENCES message (id) ON DELETE CASCADE,
    text TEXT,
    html TEXT
);
CREATE TABLE recipient (
    message_id VARCHAR(36) NOT NULL REFERENCES message (id) ON DELETE CASCADE,
    position SMALLINT NOT NULL,
    kind VARCHAR(3) NOT NULL,
    address VARCHAR(320) NOT NULL,
    name TEXT NOT NULL,
    PRIMARY KEY (message_id, position)
);
CREATE TABLE system_mailbox (
    key VARCHAR(64) NOT NULL PRIMARY KEY,
    address VARCHAR(320) NOT NULL,
    rate_limit_per_minute INTEGER CHECK (rate_limit_per_minute > 0),
    rate_limit_recipients_per_day INTEGER CHECK (rate_limit_recipients_per_day > 0),
    paused_until {moment},
    pause_reason TEXT,
    created_on {moment} NOT NULL,
    changed_on {moment} NOT NULL
);
CREATE TABLE tenant_mail_setting (
    key VARCHAR(64) NOT NULL PRIMARY KEY,
    provider VARCHAR(20) NOT NULL CHECK (provider IN ('microsoft-graph', 'sendgrid', 'default')),
    address VARCHAR(320),
    graph_tenant_id VARCHAR(128),
    graph_client_id VARCHAR(128),
    graph_client_secret_encrypted TEXT,
    sendgrid_api_key_encrypted TEXT,
    sendgrid_from VARCHAR(320),
    created_on {moment} NOT NULL,
    changed_on {moment} NOT NULL
);
"""

#: Small on purpose: each covers only the rows its reader walks, so that a tick does not feel the size of the archive.
INDEXES = """
CREATE INDEX message_due ON message (sender, priority, scheduled_on, id) WHERE status = 'SCHEDULED';
CREATE INDEX message_in_hand ON message (sender, status, recipient_count) WHERE status IN ('QUEUED', 'SENDING');
CREATE INDEX message_held ON message (lease_until) WHERE status IN ('QUEUED', 'SENDING', 'UNKNOWN');
CREATE INDEX message_expiring ON message (expires_on) WHERE status = 'SCHEDULED' AND expires_on IS NOT NULL;
CREATE INDEX message_attempted ON message (mailbox_key, attempted_on) WHERE status IN ('SENDING', 'SENT', 'UNKNOWN');
CREATE INDEX message_by_status ON message (status, created_on);
CREATE INDEX recipient_address ON recipient (address);
"""

#: What SQLite is to assume of a busy table (rows, then rows per value of each leading column), from the first row on.
#: It guesses ten rows for any status, and would walk the whole backlog rather than use the small indexes above.
ESTIMATES = {
    "sqlite_autoindex_message_1": "1000000 1",
    "message_due": "1000000 5000 2500 1 1",
    "message_in_hand": "1000 20 10 2",
    "message_held": "1000 1",
    "message_expiring": "100000 1",
    "message_attempted": "1000000 5000 1",
    "message_by_status": "1000000 500000 1",
}


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    for statement in (TABLES.format(moment=moment) + INDEXES).split(";"):
        if statement.strip():
            db.execute_sql(statement)
    if moment == "TEXT":
        db.execute_sql("ANALYZE sqlite_schema")  # makes the table that holds the estimates
        for index, estimate in ESTIMATES.items():
            db.execute_sql("INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('message', ?, ?)", (index, estimate))
        db.execute_sql("ANALYZE sqlite_schema")  # makes this connection read them
