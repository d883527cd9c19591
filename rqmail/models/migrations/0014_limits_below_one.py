"""Limits of 0 and below may be stored, as the source's tables have them: the defaults hold in their place."""

import re
from typing import Any

import peewee

_LIMITS = ("rate_limit_per_minute", "rate_limit_recipients_per_day")


def up(_migrator: Any, db: Any) -> None:
    is_postgresql = isinstance(db, peewee.PostgresqlDatabase)
    if is_postgresql:
        for name in _LIMITS:
            db.execute_sql(f"ALTER TABLE system_mailbox DROP CONSTRAINT IF EXISTS system_mailbox_{name}_check")
        return
    # SQLite changes no column: the table is made anew as it stands, without the two checks.
    [(table,)] = db.execute_sql("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = 'system_mailbox'")
    others = db.execute_sql(
        "SELECT sql FROM sqlite_master WHERE type <> 'table' AND tbl_name = 'system_mailbox' AND sql IS NOT NULL"
    ).fetchall()
    made = re.sub(r"system_mailbox", "system_mailbox_new", table, count=1)
    for name in _LIMITS:
        made = made.replace(f" CHECK ({name} > 0)", "")
    db.execute_sql(made)
    db.execute_sql("INSERT INTO system_mailbox_new SELECT * FROM system_mailbox")
    db.execute_sql("DROP TABLE system_mailbox")
    db.execute_sql("ALTER TABLE system_mailbox_new RENAME TO system_mailbox")
    for (sql,) in others:
        db.execute_sql(sql)
