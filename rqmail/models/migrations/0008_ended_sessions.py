"""Sessions that were ended before their time: a copy of the cookie is no longer valid."""

from typing import Any

import peewee


def up(_migrator: Any, db: Any) -> None:
    moment = "TIMESTAMPTZ" if isinstance(db, peewee.PostgresqlDatabase) else "TEXT"
    db.execute_sql(f"CREATE TABLE ended_session (id VARCHAR(64) NOT NULL PRIMARY KEY, ended_on {moment} NOT NULL)")
