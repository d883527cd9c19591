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
_SHARED = (_FOLDER / "state.lua").read_text(encoding="utf-8")

#: What can be handed to Redis as one argument.
Argument = str | bytes | int


@dataclass(frozen=True)
class Script:
    """One verb in Lua, with the name Redis knows it by."""

    source: str
    digest: str


def _load(verb: str) -> Script:
    source = _SHARED + (_FOLDER / f"{verb}.lua").read_text(encoding="utf-8")
    return Script(source, sha1(source.encode(), usedforsecurity=False).hexdigest())


CHECK_AND_RESERVE = _load("check_and_reserve")
RELEASE = _load("release")
SETTLE = _load("settle")
PAUSE = _load("pause")
BACK_OFF = _load("back_off")
RESET = _load("reset")
FILL = _load("fill")
USAGE = _load("usage")


def run(redis: Redis, script: Script, keys: int, *arguments: Argument) -> Any:
    """Run a script in one round trip; the first ``keys`` arguments are its keys."""
    try:
        return _command(redis, "EVALSHA", script.digest, keys, *arguments)
    except NoScriptError:
        _command(redis, "SCRIPT LOAD", script.source)
        return _command(redis, "EVALSHA", script.digest, keys, *arguments)


def run_many(redis: Redis, script: Script, calls: Sequence[tuple[int, Sequence[Argument]]]) -> list[Any]:
    """Run a script several times in one round trip; an answer that is an error is raised after all have run."""
    if len(calls) == 1:
        keys, arguments = calls[0]
        return [run(redis, script, keys, *arguments)]
    try:
        return _pipelined(redis, script, calls)
    except NoScriptError:
        _command(redis, "SCRIPT LOAD", script.source)
        return _pipelined(redis, script, calls)


def _pipelined(redis: Redis, script: Script, calls: Sequence[tuple[int, Sequence[Argument]]]) -> list[Any]:
    with redis.pipeline(transaction=False) as pipeline:
        for keys, arguments in calls:
            _command(pipeline, "EVALSHA", script.digest, keys, *arguments)
        return pipeline.execute()


def _command(redis: Redis, *words: Argument) -> Any:
    return redis.execute_command(*words)  # type: ignore[no-untyped-call]
