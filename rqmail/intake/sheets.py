"""Rows of a spreadsheet: .xlsx, .ods and .xls as they are, the first sheet or the one that was named."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from difflib import get_close_matches
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

from rqmail.errors import InvalidInputError

_MAGIC = (b"PK\x03\x04", b"\xd0\xcf\x11\xe0")

#: Memory that reading a spreadsheet may take where anybody with a token uploads one: some million cells.
SHEET_BYTES = 768 * 1024 * 1024

_SECONDS = 120
_PROCESS = Path(__file__).with_name("sheet_process.py")


def is_sheet(file: IO[bytes]) -> bool:
    """Say whether a file is a spreadsheet, by its first bytes."""
    file.seek(0)
    return file.read(4) in _MAGIC


def sheet_rows(file: IO[bytes], name: str | None = None, memory: int = SHEET_BYTES) -> Iterator[tuple[int, list[str]]]:
    """Read the rows of a sheet as text, numbered as the spreadsheet numbers them.

    It is read in a process of its own: one that needs more than ``memory`` bytes is refused, whatever its size on disk.
    """
    if find_spec("python_calamine") is None:
        raise InvalidInputError("file", "a spreadsheet", "CSV; for .xlsx and .ods install rqmail[sheets]")
    file.seek(0)
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy)
        copy.seek(0)
        command = [sys.executable, "-P", str(_PROCESS), str(memory), str(_SECONDS), *([] if name is None else [name])]
        with subprocess.Popen(command, stdin=copy, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:  # noqa: S603 - our own file
            try:
                yield from _rows(reader.stdout or (), name, memory)
            finally:
                reader.kill()


def _rows(lines: Any, name: str | None, memory: int) -> Iterator[tuple[int, list[str]]]:
    for number, line in enumerate(lines, start=1):
        told = json.loads(line) if line.endswith(b"\n") else {"too_large": True}
        if told is None:
            return
        if isinstance(told, dict):
            raise _refusal(told, name, memory)
        yield number, told
    raise _refusal({"too_large": True}, name, memory)  # the reader ended before the sheet did


def _refusal(told: dict[str, Any], name: str | None, memory: int) -> InvalidInputError:
    if "sheets" in told:
        near = get_close_matches(name or "", told["sheets"], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return InvalidInputError("sheet", name, f"one of {', '.join(told['sheets'])}{hint}")
    if "damage" in told:
        return InvalidInputError("file", f"a spreadsheet that cannot be read ({told['damage']})", ".xlsx, .ods or CSV")
    return InvalidInputError(
        "file",
        "a spreadsheet that is too large",
        f"a spreadsheet that is read within {memory // 2**20:,} MB of memory; empty rows and columns that are marked as"
        " used count too: save it as CSV",
    )
