"""Who paused a mailbox or a tenant; of a pause that stands, the audit knows."""

from typing import Any


def up(_migrator: Any, db: Any) -> None:
    for table, noun in (("system_mailbox", "mailbox"), ("tenant_mail_setting", "tenant")):
        db.execute_sql(f"ALTER TABLE {table} ADD COLUMN paused_by VARCHAR(80)")
        db.execute_sql(
            f"UPDATE {table} SET paused_by = (SELECT who FROM audit_entry WHERE subject = '{noun}:' || {table}.key"  # noqa: S608 - names are ours
            f" AND action = '{noun}.pause' ORDER BY id DESC LIMIT 1) WHERE paused_until IS NOT NULL"
        )
