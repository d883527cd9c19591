"""Senders tried with their provider on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import click

from rqmail.bootstrap import application
from rqmail.cli.errors import FAILED
from rqmail.cli.printing import print_json, show_check
from rqmail.insight.jsonable import as_json
from rqmail.terminal.tables import console, plain, table


def check_senders(
    kind: Literal["mailbox", "tenant"], key: str | None, every: Sequence[str] | None, *, json_: bool
) -> None:
    """Check the sender named ``key``, or ``every`` one, and print what was found; exits with 1 when one cannot send."""
    if (key is None) == (every is None):
        raise click.UsageError("Give a KEY or --all, not both.")
    keys = [key] if every is None else every
    checks = application().checks.check_all(f"{kind}:{one}" for one in keys)
    found = {one: checks[f"{kind}:{one}"] for one in keys if one is not None}
    if json_:
        listed = [{"key": one, "level": check.level, **as_json(check)} for one, check in found.items()]
        print_json(listed[0] if every is None else listed)
    elif every is None:
        for check in found.values():
            show_check(check)
    else:
        shown = table("key", "", "problem", folds=("problem",))
        for one, check in found.items():
            shown.add_row(one, check.level, plain(check.problem or ""))
        console().print(shown)
    if any(check.level == "error" for check in found.values()):
        raise click.exceptions.Exit(FAILED)
