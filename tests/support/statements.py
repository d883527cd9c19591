"""What was asked of the database, and how it would go about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rqmail.models.base import db, is_postgresql, pooled_connection


@contextmanager
def recorded() -> Iterator[list[tuple[str, Any]]]:
    """Collect every statement that runs inside, with its parameters."""
    statements: list[tuple[str, Any]] = []
    run = db.obj.execute_sql

    def recording(sql: str, params: Any = None, *args: Any, **kwargs: Any) -> Any:
        statements.append((sql, params))
        return run(sql, params, *args, **kwargs)

    db.obj.execute_sql = recording
    try:
        yield statements
    finally:
        del db.obj.execute_sql


def plan(sql: str, params: Any) -> list[str]:
    """The database's plan for a statement, a line a step."""
    explain = "EXPLAIN " if is_postgresql() else "EXPLAIN QUERY PLAN "
    with pooled_connection():
        return [str(step[-1]).strip() for step in db.obj.execute_sql(explain + sql, params).fetchall()]


def walks(step: str) -> bool:
    """Say whether this step of a plan reads the table ``message`` from end to end, or every row of one status."""
    if is_postgresql():
        return "Seq Scan on message" in step
    unguided = step.startswith(("SCAN message", "SCAN m", "SCAN t1")) and "USING" not in step
    return unguided or "message_by_status" in step
