"""How many external recipients a message had at its last attempt, where its mailbox shares a budget of them."""

from typing import Any


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql("ALTER TABLE message ADD COLUMN external_count INTEGER")
