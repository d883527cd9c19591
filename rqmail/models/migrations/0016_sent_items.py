"""What a mailbox keeps of its mail in Sent Items, how an attempt can be found there, and how far copies are pruned."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    db.execute_sql("ALTER TABLE system_mailbox ADD COLUMN sent_items VARCHAR(5)")
    db.execute_sql("ALTER TABLE system_mailbox ADD COLUMN prune_after_days INTEGER")
    for name in ("copied", "marked"):
        db.execute_sql(f"ALTER TABLE message ADD COLUMN {name} BOOLEAN")
    db.execute_sql(
        "CREATE TABLE sent_pruning (mailbox VARCHAR(64) NOT NULL PRIMARY KEY,"
        f" next_on {moment} NOT NULL, pruned_on {moment}, removed BIGINT NOT NULL, problem TEXT)"
    )
