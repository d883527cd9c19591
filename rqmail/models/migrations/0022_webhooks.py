"""Webhooks: who is told of what happens to mail, and what each of them still has to be told."""

from typing import Any

import peewee

#: ``{moment}`` is the type the two databases spell differently. A delivery refers to no webhook: one that is removed
#: while an outcome is written must not keep that from being written.
TABLES = """
CREATE TABLE webhook (
    id VARCHAR(20) NOT NULL PRIMARY KEY,
    url TEXT NOT NULL,
    events TEXT NOT NULL,
    secret_encrypted TEXT NOT NULL,
    enabled BOOLEAN NOT NULL,
    created_on {moment} NOT NULL,
    created_by VARCHAR(80) NOT NULL,
    failures INTEGER NOT NULL,
    failing_since {moment},
    held_until {moment},
    last_error TEXT,
    delivered_on {moment}
);
CREATE TABLE webhook_delivery (
    webhook_id VARCHAR(20) NOT NULL,
    event_id VARCHAR(40) NOT NULL,
    type VARCHAR(20) NOT NULL,
    payload TEXT NOT NULL,
    created_on {moment} NOT NULL,
    due_on {moment},
    give_up_on {moment} NOT NULL,
    attempts INTEGER NOT NULL,
    status SMALLINT,
    error TEXT,
    delivered_on {moment},
    PRIMARY KEY (webhook_id, event_id)
);
CREATE INDEX webhook_delivery_due ON webhook_delivery (webhook_id, due_on) WHERE due_on IS NOT NULL;
CREATE INDEX webhook_delivery_done ON webhook_delivery (created_on) WHERE due_on IS NULL
"""


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    for statement in TABLES.format(moment=moment).split(";"):
        db.execute_sql(statement)
