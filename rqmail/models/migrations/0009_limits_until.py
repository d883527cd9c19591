"""Limits of a mailbox that hold until a moment, and what they go back to then."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    for name, kind in (
        ("limits_until", moment),
        ("limits_after_per_minute", "INTEGER"),
        ("limits_after_recipients_per_day", "INTEGER"),
    ):
        db.execute_sql(f"ALTER TABLE system_mailbox ADD COLUMN {name} {kind}")
