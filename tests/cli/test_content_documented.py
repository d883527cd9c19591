"""docs/content.md is run as it stands: every command, request and piece of Python, and what they print."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import pytest

from rqmail.models.message import Message
from web.pages.serving import serving

DOCUMENT = (Path(__file__).parents[2] / "docs" / "content.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", DOCUMENT, re.MULTILINE | re.DOTALL)
PDF, PNG = b"%PDF-1.7", b"\x89PNG\r\n\x1a\n"
EML = b"From: a@x.nl\nTo: b@x.nl\nSubject: =?utf-8?q?Zo=C3=AB?=\nContent-Type: text/plain; charset=utf-8\n\nDag\n"


@pytest.fixture
def folder(tmp_path, run_json):
    """A folder with the files that the page names, and its mailbox."""
    run_json("mailbox", "add", "news", "--address", "news@x.nl", "--no-check")
    [json] = [text for kind, text in BLOCKS if kind == "json"]
    table = next(text for kind, text in BLOCKS if text.startswith("$ cat invoices.csv"))
    files = {
        "factuur.pdf": PDF, "logo.png": PNG, "mail.html": b'<img src="cid:logo"> Dag Jan', "mail.eml": EML,
        "run.exe": b"MZ", "message.json": json.encode(), "pdfs/1.pdf": PDF, "pdfs/2.pdf": PDF + b"2",
        "pdfs/voorwaarden.pdf": PDF, "invoices.csv": table.partition("\n")[2].partition("$ ")[0].encode(),
    }  # fmt: skip
    (tmp_path / "pdfs").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    return tmp_path


@pytest.fixture
def spoken(app, run, folder):
    """Run what stands behind a prompt, and answer what is printed."""
    _, token = app.access.create("docs", ["send"], by="test")
    with serving(app) as address:

        def spoken(command: str) -> str:
            if command.startswith("rqmail "):
                result = run(*shlex.split(command)[1:])
                assert result.exit_code == 0, (command, result.output)
                return result.stdout + result.stderr
            environment = os.environ | {"RQMAIL": address, "TOKEN": token}
            done = subprocess.run(
                command, shell=True, cwd=folder, env=environment, capture_output=True, text=True, check=True
            )
            return done.stdout

        yield spoken


def told(line: str) -> str:
    return ".*".join(re.escape(part) for part in line.split("…"))


def test_every_command_and_request_prints_what_stands_below_it(spoken, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    shown = [text for kind, text in BLOCKS if not kind]
    assert len(shown) > 4
    for text in shown:
        for command, _, printed in re.findall(r"^\$ (.*)$(\n)?((?:^(?!\$ ).*\n?)*)", text, re.MULTILINE):
            output = spoken(command)
            for line in printed.splitlines():
                assert re.search(rf"^{told(line)}$", output, re.MULTILINE), (command, output)
    assert Message.select().count() == 9


def test_the_python_of_the_page_hands_a_message_in(folder):
    [python] = [text for kind, text in BLOCKS if kind == "python"]
    exec(compile(python, "docs/content.md", "exec"), {})
    assert Message.get().subject == "Nieuws"
