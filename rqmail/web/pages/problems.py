"""What readiness finds wrong and no problem says yet."""

from __future__ import annotations

from collections.abc import Iterable

from rqmail.insight.readiness import Check
from rqmail.insight.standing import Problem

#: What each check of readiness is about, by the codes of the sentences that say the same more precisely.
_SAID_BY = {
    "redis": {"redis-refuses", "redis-away"},
    "ticks": {"no-tick", "old-tick"},
    "workers": {"no-worker"},
}


def unsaid(checks: Iterable[Check], problems: Iterable[Problem]) -> list[Check]:
    """Answer the checks of readiness that failed and that no problem speaks of."""
    said = {problem.text.code for problem in problems}
    return [check for check in checks if not check.ok and not said & _SAID_BY.get(check.name, set())]
