"""The tables, brought up to date step by step."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rqmail.models.base import db, pooled_connection

if TYPE_CHECKING:
    from playhouse.migrations import Runner

#: Numbered steps, each a file; what has been applied is recorded in the table ``schema_migration``.
DIRECTORY = Path(__file__).parent / "migrations"


def migrate() -> list[str]:
    """Apply the steps that have not been applied yet and answer their names; safe to repeat."""
    with pooled_connection():
        applied: list[str] = _runner().up()
    return applied


def pending() -> list[str]:
    """Name the steps that have not been applied yet."""
    with pooled_connection():
        return [step.name for step in _runner().status() if not step.applied]


def _runner() -> Runner:
    # Imported when it is asked for: it is half of what peewee takes to import, and most commands never ask.
    from playhouse.migrations import Runner  # noqa: PLC0415

    return Runner(db.obj, directory=str(DIRECTORY))
