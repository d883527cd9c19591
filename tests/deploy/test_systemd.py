"""The units for systemd: they are well formed, they let a process reach little, and they give a send its time."""

from __future__ import annotations

import configparser
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rqmail import bootstrap
from rqmail.cli import COMMANDS
from rqmail.clock import utc_now
from rqmail.settings import PREFIX, Settings

FOLDER = Path(__file__).parents[2] / "deploy" / "systemd"
SERVICES = sorted(FOLDER.glob("*.service"))
LASTING = [path for path in SERVICES if path.name != "rqmail-init.service"]

needs_systemd = pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed here")


def read(path: Path) -> dict[str, dict[str, list[str]]]:
    """A unit's sections; what is given twice is a list, as systemd reads it."""
    sections: dict[str, dict[str, list[str]]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if header := re.fullmatch(r"\[(\w+)\]", line):
            section = sections.setdefault(header[1], {})
        elif line and not line.startswith("#"):
            name, _, value = line.partition("=")
            section.setdefault(name, []).append(value)
    return sections


@pytest.fixture(scope="module")
def without_our_programs(tmp_path_factory):
    """The units with a program that every machine has: ours is not at its place where tests run."""
    folder = tmp_path_factory.mktemp("units")
    for path in FOLDER.iterdir():
        text = path.read_text(encoding="utf-8").replace("/opt/rqmail/venv/bin/rqmail", "/bin/true")
        (folder / path.name).write_text(text, encoding="utf-8")
    return folder


@needs_systemd
def test_systemd_finds_nothing_wrong_with_the_units(without_our_programs):
    units = sorted(path for path in without_our_programs.iterdir() if path.suffix in {".service", ".target"})
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    ours = [line for line in verified.stderr.splitlines() if "rqmail" in line]
    assert (verified.returncode, ours) == (0, [])


@needs_systemd
@pytest.mark.parametrize("unit", [path.name for path in SERVICES])
def test_what_a_process_may_reach_is_rated_below_three_of_ten(without_our_programs, unit):
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=yes", "--threshold=30", "--no-pager", without_our_programs / unit],
        capture_output=True,
        text=True,
    )
    assert judged.returncode == 0, judged.stdout[-200:] + judged.stderr


@pytest.mark.parametrize("path", LASTING, ids=lambda path: path.name)
def test_a_process_that_stops_has_more_time_than_its_longest_send(path):
    service = read(path)["Service"]
    sends = {"worker", "scheduler"} & set(service["ExecStart"][0].split())
    longest = bootstrap.Application(Settings(_env_file=None), utc_now).queues._job_timeout_seconds if sends else 30
    assert int(service["TimeoutStopSec"][0]) > longest
    assert service["KillMode"] == ["mixed"]
    assert service["Restart"] == ["always"]


@pytest.mark.parametrize("path", SERVICES, ids=lambda path: path.name)
def test_every_service_runs_a_command_there_is_without_rights_and_with_secrets_from_a_file(path):
    service = read(path)["Service"]
    assert service["ExecStart"][0].split()[1] in COMMANDS
    assert service["User"] == ["rqmail"]
    assert service["EnvironmentFile"] == ["/etc/rqmail/rqmail.env"]
    assert service["NoNewPrivileges"] == ["yes"]
    assert service["CapabilityBoundingSet"] == [""]


def test_the_example_of_an_environment_names_settings_there_are():
    config = configparser.ConfigParser()
    config.read_string("[env]\n" + (FOLDER / "rqmail.env.example").read_text(encoding="utf-8"))
    names = {name.removeprefix(PREFIX.lower()) for name in config["env"]}
    assert names <= set(Settings.model_fields)
