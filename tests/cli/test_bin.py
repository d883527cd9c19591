"""The commands in bin/: wherever they are called from, and what they say where nothing is set up."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

BIN = Path(__file__).parents[2] / "bin"
COMMANDS = sorted(path.name for path in BIN.iterdir())


def asked(command: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([command, "--help"], capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def linked(tmp_path):
    """A copy of the commands beside a Python that repeats what it is given, called through a symbolic link."""
    shutil.copytree(BIN, tmp_path / "home" / "bin")
    python = tmp_path / "home" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "$@"\n')
    python.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_works_through_a_symbolic_link(linked, name):
    (linked / name).symlink_to(linked / "home" / "bin" / name)
    told = asked(linked / name)
    assert told.returncode == 0
    assert told.stdout.startswith("-m rqmail.cli") and told.stdout.endswith("--help\n")


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_without_an_environment_says_what_is_missing(tmp_path, name):
    shutil.copytree(BIN, tmp_path / "bin")
    told = asked(tmp_path / "bin" / name)
    assert told.returncode == 1 and told.stdout == ""
    assert told.stderr == (
        f"There is no {tmp_path}/.venv with rqmail's Python packages; run `make setup` in {tmp_path} first.\n"
    )
