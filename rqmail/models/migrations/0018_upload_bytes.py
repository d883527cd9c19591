"""How many bytes of files a message uploads: counted against the mailbox's volume, so claimed within it."""

from typing import Any


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql("ALTER TABLE message ADD COLUMN upload_bytes BIGINT")
