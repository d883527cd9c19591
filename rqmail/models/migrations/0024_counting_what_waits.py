"""What waits is counted from the index alone, however many messages that are."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql("DROP INDEX message_due")
    db.execute_sql(
        "CREATE INDEX message_due ON message"
        " (sender, priority, scheduled_on, id, recipient_count, upload_bytes, status) WHERE status = 'SCHEDULED'"
    )
    if not isinstance(db, peewee.PostgresqlDatabase):
        db.execute_sql("DELETE FROM sqlite_stat1 WHERE idx = 'message_due'")
        db.execute_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('message', 'message_due', '1000000 5000 2500 1 1 1 1 1')"
        )
        db.execute_sql("ANALYZE sqlite_schema")  # makes this connection read it
