"""The mailboxes that a token is bound to."""

from typing import Any


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql("ALTER TABLE api_token ADD COLUMN mailboxes TEXT")
