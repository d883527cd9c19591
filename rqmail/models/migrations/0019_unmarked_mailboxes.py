"""Which mailboxes take no property of ours, and since when."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    db.execute_sql(
        f"CREATE TABLE unmarked_mailbox (mailbox_key VARCHAR(320) NOT NULL PRIMARY KEY, since {moment} NOT NULL)"
    )
