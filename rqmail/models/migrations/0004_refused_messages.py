"""An index of the messages that the limiter refused: they keep their place in the line of their mailbox."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql(
        "CREATE INDEX message_refused ON message (waiting_for, sender, priority, scheduled_on)"
        " WHERE status = 'SCHEDULED' AND waiting_for IN ('minute', 'day')"
    )
    if not isinstance(db, peewee.PostgresqlDatabase):
        db.execute_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('message', 'message_refused', '100 50 10 5 1')"
        )
        db.execute_sql("ANALYZE sqlite_schema")  # makes this connection read it
