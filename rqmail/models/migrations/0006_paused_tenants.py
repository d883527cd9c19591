"""A person's pause of a tenant, as a mailbox has one."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    db.execute_sql(f"ALTER TABLE tenant_mail_setting ADD COLUMN paused_until {moment}")
    db.execute_sql("ALTER TABLE tenant_mail_setting ADD COLUMN pause_reason TEXT")
