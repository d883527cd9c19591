"""The Lua scripts, each made for one run of the server: a server that was restarted or replaced knows none of them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Literal, TypeAlias

Verb: TypeAlias = Literal[
    "check_and_reserve",
    "release",
    "settle",
    "extend",
    "count_late",
    "pause",
    "back_off",
    "count_rejection",
    "reset",
    "fill",
    "usage",
    "held",
]

_FOLDER = Path(__file__).parent
_INCLUDE = re.compile(r"^-- include (\w+\.lua)$", re.MULTILINE)
#: EVALSHA on so many keys with so many arguments, as it goes over the line: a mailbox, and at most two scopes.
_EVALSHA = {
    keys: [
        b"*%%d\r\n$7\r\nEVALSHA\r\n$40\r\n%%b\r\n$1\r\n%d\r\n" % keys + b"$%d\r\n%b\r\n" * count for count in range(10)
    ]
    for keys in (1, 2, 3)
}


@dataclass(frozen=True)
class Script:
    """One verb in Lua, with the name Redis knows it by."""

    source: str
    digest: bytes


class Scripts(dict[Verb, Script]):
    """Every verb for one run of the server, told as a number (0 when the server does not tell its run)."""

    def __init__(self, run: int) -> None:
        super().__init__()
        self.run = run

    def __missing__(self, verb: Verb) -> Script:
        """Make a script when it is first asked for."""
        source = f"local RUN = {self.run}\n" + _read("struct.lua") + _read("layout.lua")
        source += _INCLUDE.sub(lambda included: _read(included[1]), _read(f"{verb}.lua"))
        digest = sha1(source.encode(), usedforsecurity=False).hexdigest().encode()
        script = self[verb] = Script(source, digest)
        return script


def packed(script: Script, arguments: tuple[bytes, ...], keys: int = 1) -> bytes:
    """Answer the command that runs a script on its keys, the first of the arguments, as it goes over the line.

    Packed here because half of what a decision costs is redis-py packing and measuring.
    """
    words: list[object] = [len(arguments) + 3, script.digest]
    for argument in arguments:
        words += (len(argument), argument)
    return _EVALSHA[keys][len(arguments)] % tuple(words)


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")
