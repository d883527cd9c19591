"""What the provider said about each sender when it was last asked."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    db.execute_sql(
        "CREATE TABLE sender_check (sender VARCHAR(80) NOT NULL PRIMARY KEY,"
        f" checked_on {moment} NOT NULL, exists_there BOOLEAN, may_send BOOLEAN, may_read BOOLEAN, may_write BOOLEAN,"
        " problem TEXT, outcome VARCHAR(12) NOT NULL)"
    )
