"""The runbook tells of everything that can wake somebody: every alert, every event the code logs, every state."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from rqmail.cli import COMMANDS
from rqmail.models.message import MessageStatus

ROOT = Path(__file__).parents[2]
OBSERVABILITY = ROOT / "deploy" / "observability"
RUNBOOK = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8")

needs_promtool = pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed here")


def rows(heading: str) -> set[str]:
    """What the first column of the table under a heading names."""
    section = RUNBOOK.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    return set(re.findall(r"^\| `([^`]+)` \|", section, re.MULTILINE))


def events() -> set[str]:
    """Every event that the code writes: the first argument of ``log.LEVEL(...)``."""
    files = [path for folder in ("rqmail", "jobs") for path in (ROOT / folder).rglob("*.py")]
    written = re.compile(r'\blog\.(?:debug|info|warning|error|exception|critical)\(\s*(?:#.*\n\s*)?"([^"]+)"')
    return {name for path in files for name in written.findall(path.read_text(encoding="utf-8"))}


def alerts() -> set[str]:
    groups = yaml.safe_load((OBSERVABILITY / "rqmail.rules.yml").read_text(encoding="utf-8"))["groups"]
    return {rule["alert"] for group in groups for rule in group["rules"]}


def test_every_event_the_code_logs_is_in_the_runbook_and_no_other():
    assert rows("Log events") == events()


def test_every_alert_is_in_the_runbook_and_no_other():
    assert rows("Alerts") == alerts()


def test_every_state_of_a_message_is_in_the_runbook():
    assert rows("States of a message") == {status.value for status in MessageStatus}


@pytest.mark.parametrize("name", ["runbook.md", "deploy.md"])
def test_the_commands_that_are_shown_exist(name):
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert set(re.findall(r"`rqmail ([a-z-]+)", text)) <= set(COMMANDS)


@needs_promtool
@pytest.mark.parametrize("what", [("check", "rules", "rqmail.rules.yml"), ("test", "rules", "rqmail.rules.test.yml")])
def test_prometheus_reads_the_alerts_and_each_fires_when_it_should(what):
    ran = subprocess.run(["promtool", *what], cwd=OBSERVABILITY, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
