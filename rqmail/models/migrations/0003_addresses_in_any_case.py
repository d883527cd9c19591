"""A recipient is found by its address in any case: one index takes the place of the one that knew a single spelling."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    folded = "LOWER(address)" if isinstance(db, peewee.PostgresqlDatabase) else "address COLLATE NOCASE"
    db.execute_sql("DROP INDEX recipient_address")
    db.execute_sql(f"CREATE INDEX recipient_address ON recipient ({folded})")
