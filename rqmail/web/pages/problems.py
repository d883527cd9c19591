"""What a person should know, worst first: warnings of one cause are one line, ranked by the mail that waits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rqmail.insight.readiness import Check
from rqmail.insight.standing import Problem, Sentence

#: What each check of readiness is about, by the codes of the sentences that say the same more precisely.
_SAID_BY = {
    "redis": {"redis-refuses", "redis-away"},
    "ticks": {"no-tick", "old-tick"},
    "workers": {"no-worker"},
}


@dataclass(frozen=True, slots=True)
class Line:
    """One cause: what is said of it, of each sender it holds back, and how much mail waits for it to end."""

    level: str
    texts: tuple[Sentence, ...]
    waiting: int

    @property
    def text(self) -> Sentence:
        """What is said of the sender with most waiting mail."""
        return self.texts[0]


def lines(problems: Iterable[Problem]) -> list[Line]:
    """Put what has one cause together; errors come first, then what holds back most mail."""
    causes: dict[tuple[str, str, str], list[Sentence]] = {}
    for problem in problems:
        values = problem.text.values
        alike = str(values.get("reason", "")) if "name" in values else str(problem.text)
        causes.setdefault((problem.level, problem.text.code, alike), []).append(problem.text)
    found = [
        Line(level, tuple(sorted(texts, key=_waiting, reverse=True)), sum(map(_waiting, texts)))
        for (level, _, _), texts in causes.items()
    ]
    return sorted(found, key=lambda line: (line.level != "error", -line.waiting))


def unsaid(checks: Iterable[Check], problems: Iterable[Problem]) -> list[Check]:
    """Answer the checks of readiness that failed and that no problem speaks of."""
    said = {problem.text.code for problem in problems}
    return [check for check in checks if not check.ok and not said & _SAID_BY.get(check.name, set())]


def _waiting(text: Sentence) -> int:
    return int(text.values.get("waiting", text.values.get("number", 0)))
