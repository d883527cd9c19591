"""Files of messages on their way in: who imported what, and the parts that are not stored as messages yet."""

from typing import Any

import peewee

#: ``{moment}`` and ``{bytes}`` are the types the two databases spell differently.
TABLES = """
CREATE TABLE message_import (
    id VARCHAR(36) NOT NULL PRIMARY KEY,
    who VARCHAR(80) NOT NULL,
    file_name TEXT NOT NULL,
    sender VARCHAR(80) NOT NULL,
    state VARCHAR(10) NOT NULL,
    row_count INTEGER NOT NULL,
    expected INTEGER NOT NULL,
    stored INTEGER NOT NULL,
    report TEXT NOT NULL,
    created_on {moment} NOT NULL,
    lease_until {moment},
    ended_on {moment},
    ended_by VARCHAR(80)
);
CREATE TABLE message_import_part (
    import_id VARCHAR(36) NOT NULL REFERENCES message_import (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    content {bytes} NOT NULL,
    PRIMARY KEY (import_id, number)
);
CREATE INDEX message_import_open ON message_import (state, lease_until) WHERE state IN ('CHECKING', 'STORING');
ALTER TABLE message ADD COLUMN import_id VARCHAR(36);
CREATE INDEX message_of_import ON message (import_id) WHERE import_id IS NOT NULL;
"""


def up(_migrator: Any, db: Any) -> None:
    postgresql = isinstance(db, peewee.PostgresqlDatabase)
    moment, some_bytes = ("TIMESTAMPTZ", "BYTEA") if postgresql else ("TEXT", "BLOB")
    for statement in TABLES.format(moment=moment, bytes=some_bytes).split(";"):
        if statement.strip():
            db.execute_sql(statement)
    if not postgresql:
        db.execute_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('message', 'message_of_import', '1000000 1000')"
        )
        db.execute_sql("ANALYZE sqlite_schema")  # makes this connection read it
