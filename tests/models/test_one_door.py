"""That one place writes the status of a message."""

from __future__ import annotations

import re
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "rqmail"

#: How a status could be written: by an UPDATE of our own, through peewee, or on a row that is saved.
WRITES = re.compile(r"UPDATE message\b|\bupdate\([^)]*\bstatus\b|\.status = (?!')|\.save\(\)|update_many|bulk_update")


def _sources() -> dict[str, str]:
    return {str(path.relative_to(PACKAGE)): path.read_text(encoding="utf-8") for path in PACKAGE.rglob("*.py")}


def test_one_file_holds_the_only_statement_that_changes_a_status():
    models = {name: text for name, text in _sources().items() if name.startswith("models/")}
    tables_of_messages = {name: text for name, text in models.items() if "migrations" not in name}
    assert [name for name, text in tables_of_messages.items() if WRITES.search(text)] == ["models/row.py"]


def test_the_door_is_used_by_the_moves_and_by_nobody_else():
    users = {name for name, text in _sources().items() if re.search(r"\b_(enter|settle)\(", text)}
    assert users == {"models/row.py", "models/claims.py", "models/results.py", "models/decisions.py"}
