"""What the last attempt of a message went through, beside its mailbox: provider, Entra tenant, app."""

from typing import Any

COLUMNS = {"provider": 20, "entra_tenant": 128, "app_id": 128}


def up(_migrator: Any, db: Any) -> None:
    for name, length in COLUMNS.items():
        db.execute_sql(f"ALTER TABLE message ADD COLUMN {name} VARCHAR({length})")
