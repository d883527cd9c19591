"""How far the reports in each mailbox's Inbox are read, and bounces found by when they were."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    db.execute_sql(
        f"CREATE TABLE bounce_reading (mailbox VARCHAR(320) NOT NULL PRIMARY KEY, read_to {moment} NOT NULL,"
        f" last_ids TEXT NOT NULL, next_on {moment} NOT NULL, quiet INTEGER NOT NULL, problem TEXT)"
    )
    db.execute_sql("CREATE INDEX recipient_bounced ON recipient_result (at) WHERE result = 'bounced'")
