"""That every command in docs/campaigns.md runs as it stands there, and prints what is printed there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

TEXT = (Path(__file__).parents[2] / "docs" / "campaigns.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w+) ?([\w.]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_walk_through_campaigns_goes_as_it_is_written(run, tmp_path):
    commands = 0
    for kind, name, body in BLOCK.findall(TEXT):
        if name:
            (tmp_path / name).write_text(body, encoding="utf-8")
        elif kind == "console":
            for step in body.split("$ rqmail ")[1:]:
                command, _, shown = step.partition("\n")
                result = run(*shlex.split(command))
                assert result.exit_code == 0, (command, result.output)
                if shown.strip():
                    assert result.stdout.replace("\xa0", " ").rstrip() == shown.rstrip(), command
                commands += 1
    assert commands == 12
