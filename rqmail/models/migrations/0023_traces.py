"""How far each Entra tenant's message trace is read, and what became of mail at each recipient."""

from typing import Any

import peewee

#: ``{moment}`` is the type the two databases spell differently.
TABLES = """
CREATE TABLE trace_reading (
    tenant VARCHAR(128) NOT NULL PRIMARY KEY,
    read_to {moment} NOT NULL,
    looked_back_on {moment},
    period_start {moment},
    period_end {moment},
    next_link TEXT,
    asked_on TEXT NOT NULL,
    next_on {moment} NOT NULL,
    quiet INTEGER NOT NULL,
    problem TEXT
);
CREATE TABLE recipient_delivery (
    message_id VARCHAR(36) NOT NULL REFERENCES message (id) ON DELETE CASCADE,
    address VARCHAR(320) NOT NULL,
    status VARCHAR(12) NOT NULL,
    received_on {moment} NOT NULL,
    noted_on {moment} NOT NULL,
    probable BOOLEAN NOT NULL,
    PRIMARY KEY (message_id, address)
);
CREATE INDEX recipient_pending ON recipient_delivery (received_on) WHERE status = 'pending';
"""


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    for statement in TABLES.format(moment=moment).split(";"):
        if statement.strip():
            db.execute_sql(statement)
