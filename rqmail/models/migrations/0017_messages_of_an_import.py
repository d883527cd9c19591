"""The messages of one import are listed in their order, however many there are, without sorting."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql("DROP INDEX message_of_import")
    db.execute_sql("CREATE INDEX message_of_import ON message (import_id, id) WHERE import_id IS NOT NULL")
    if not isinstance(db, peewee.PostgresqlDatabase):
        db.execute_sql("DELETE FROM sqlite_stat1 WHERE idx = 'message_of_import'")
        db.execute_sql(
            "INSERT INTO sqlite_stat1 (tbl, idx, stat) VALUES ('message', 'message_of_import', '1000000 1000 1')"
        )
        db.execute_sql("ANALYZE sqlite_schema")  # makes this connection read it
