"""Addresses that get no mail, and what became of single recipients of a message."""

from typing import Any

import peewee

#: ``{moment}`` is the type the two databases spell differently.
TABLES = """
CREATE TABLE suppression (
    address VARCHAR(320) NOT NULL,
    scope VARCHAR(80) NOT NULL,
    reason VARCHAR(12) NOT NULL,
    source VARCHAR(200) NOT NULL,
    since {moment} NOT NULL,
    unsubscribed_on {moment},
    PRIMARY KEY (address, scope)
);
CREATE TABLE recipient_result (
    message_id VARCHAR(36) NOT NULL REFERENCES message (id) ON DELETE CASCADE,
    address VARCHAR(320) NOT NULL,
    result VARCHAR(10) NOT NULL,
    code VARCHAR(20),
    detail TEXT,
    at {moment} NOT NULL,
    probable BOOLEAN NOT NULL,
    PRIMARY KEY (message_id, address, result)
);
"""


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    for statement in TABLES.format(moment=moment).split(";"):
        if statement.strip():
            db.execute_sql(statement)
