"""What stands behind the links by which people unsubscribe: one row a person and scope, kept for good."""

from typing import Any


def up(_migrator: Any, db: Any) -> None:
    db.execute_sql(
        "CREATE TABLE unsubscribe_link (id VARCHAR(36) NOT NULL PRIMARY KEY, address VARCHAR(320) NOT NULL,"
        " scope VARCHAR(80) NOT NULL, UNIQUE (address, scope))"
    )
