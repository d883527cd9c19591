"""How a mailbox's minute is given out: evenly, at once, or (empty) as the setting says."""

from typing import Any


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql("ALTER TABLE system_mailbox ADD COLUMN pacing VARCHAR(5) CHECK (pacing IN ('even', 'burst'))")
