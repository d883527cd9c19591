"""A tenant that sends through a mailbox of its own may have limits of its own, as a system mailbox may."""

from typing import Any


def up(_migrator: Any, db: Any) -> None:
    for column in ("rate_limit_per_minute", "rate_limit_recipients_per_day"):
        db.execute_sql(f"ALTER TABLE tenant_mail_setting ADD COLUMN {column} INTEGER")
