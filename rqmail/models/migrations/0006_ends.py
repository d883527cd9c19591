"""When a message came to its end: retention counts from there."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    db.execute_sql(f"ALTER TABLE message ADD COLUMN ended_on {moment}")
