"""The Lua scripts, called by their digest and registered with a server that does not know them yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path
from typing import Any

from redis import Redis
from redis.exceptions import NoScriptError

_FOLDER = Path(__file__).parent
_INCLUDE = "-- include words.lua"


@dataclass(frozen=True)
class Script:
    """One verb in Lua, with the name Redis knows it by."""

    source: str
    digest: bytes


def _read(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _load(verb: str) -> Script:
    source = (
        "local RUN = 0\n"
        + _read("struct.lua")
        + _read("layout.lua")
        + _read(f"{verb}.lua").replace(_INCLUDE, _read("words.lua"))
    )
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest().encode())


#: EVALSHA on one key with so many arguments, as it goes over the line.
_EVALSHA = [b"*%d\r\n$7\r\nEVALSHA\r\n$40\r\n%b\r\n$1\r\n1\r\n" + b"$%d\r\n%b\r\n" * count for count in range(8)]

CHECK_AND_RESERVE = _load("check_and_reserve")
COUNT_LATE = _load("count_late")
RELEASE = _load("release")
SETTLE = _load("settle")
PAUSE = _load("pause")
BACK_OFF = _load("back_off")
STRIKE = _load("strike")
RESET = _load("reset")
FILL = _load("fill")
USAGE = _load("usage")


def packed(script: Script, arguments: tuple[bytes, ...]) -> bytes:
    """Answer the command that runs a script on its one key, the first of the arguments, as it goes over the line.

    Packed here because half of what a decision costs is redis-py packing and measuring.
    """
    words: list[object] = [len(arguments) + 3, script.digest]
    for argument in arguments:
        words += (len(argument), argument)
    return _EVALSHA[len(arguments)] % tuple(words)


def run_many(redis: Redis, script: Script, calls: Sequence[tuple[int, Sequence[bytes]]]) -> list[Any]:
    """Run a script several times in one round trip, each time on as many keys as its first arguments are.

    An answer that is an error is raised after all have run.
    """
    try:
        return _pipelined(redis, script, calls)
    except NoScriptError:
        register(redis, script)
        return _pipelined(redis, script, calls)


def register(redis: Redis, script: Script) -> None:
    """Make the script known to the server."""
    redis.script_load(script.source)


def _pipelined(redis: Redis, script: Script, calls: Sequence[tuple[int, Sequence[bytes]]]) -> list[Any]:
    with redis.pipeline(transaction=False) as pipeline:
        for keys, arguments in calls:
            pipeline.evalsha(script.digest.decode(), keys, *arguments)
        return pipeline.execute()
