"""What the README says about settings and commands is what there is."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rqmail.cli import COMMANDS
from rqmail.settings import PREFIX, Settings

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
ROWS = {
    name: cells[1].strip()
    for line in README.splitlines()
    if line.startswith(f"| `{PREFIX}")
    for cells in [line.strip("|").split("|")]
    for name in re.findall(rf"`{PREFIX}(\w+)`", cells[0])
}


@pytest.mark.parametrize("name", Settings.model_fields)
def test_every_setting_is_in_the_table_with_its_default(name):
    told = ROWS[name.upper()]
    default = Settings.model_fields[name].default
    expected = {None: "–"}.get(default, f"{default:g}" if isinstance(default, float) else str(default))
    assert told.strip("`") == expected or (name, told) in {
        ("ca_bundle", "the usual ones"),
        ("redis_ca", "`RQMAIL_CA_BUNDLE`"),
    }


def test_the_table_names_no_setting_that_is_not_there():
    assert {name.lower() for name in ROWS} <= set(Settings.model_fields)


def test_every_command_shown_exists():
    shown = set(re.findall(r"rqmail (\w+)", re.sub(r"RQMAIL_\w+", "", README)))
    spoken = {"builds", "sends", "finds", "find"}
    assert shown - spoken <= set(COMMANDS), "a command in the README that is none"
