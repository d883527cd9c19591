"""The tables, brought up to date step by step."""

from __future__ import annotations

from pathlib import Path

from playhouse.migrations import Runner

from rqmail.models.base import db, pooled_connection

#: Numbered steps, each a file; what has been applied is recorded in the table ``schema_migration``.
DIRECTORY = Path(__file__).parent / "migrations"


def migrate() -> list[str]:
    """Apply the steps that have not been applied yet and answer their names; safe to repeat."""
    with pooled_connection():
        applied: list[str] = Runner(db.obj, directory=str(DIRECTORY)).up()
    return applied


def pending() -> list[str]:
    """Name the steps that have not been applied yet."""
    with pooled_connection():
        return [step.name for step in Runner(db.obj, directory=str(DIRECTORY)).status() if not step.applied]
