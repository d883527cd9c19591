"""What a person should know, worst first: what has one cause is one line, and much waiting mail comes before little."""

from __future__ import annotations

from collections.abc import Iterable

from rqmail.insight.standing import Cause, Problem, Sentence
from rqmail.insight.turns import called
from rqmail.text.counting import counted


def causes(problems: Iterable[Problem]) -> tuple[Cause, ...]:
    """Put what has one cause together; errors come first, then what holds back most mail."""
    alike: dict[tuple[str, ...], list[Problem]] = {}
    for problem in problems:
        alike.setdefault(_kind(problem), []).append(problem)
    found = [_cause(sorted(those, key=lambda one: -one.waiting)) for those in alike.values()]
    return tuple(sorted(found, key=lambda cause: (cause.level != "error", -cause.waiting)))


def _kind(problem: Problem) -> tuple[str, ...]:
    """Answer what problems of one cause share: what a person decided is one thing for each reason and person."""
    values = problem.text.values
    if problem.sender is None:
        return problem.level, problem.code, str(problem.text)
    if problem.code in {"paused", "paused-by-person"}:
        return problem.level, problem.code, values["reason"], values["by"] or ""
    return problem.level, problem.code


def _cause(those: list[Problem]) -> Cause:
    first, waiting = those[0], sum(one.waiting for one in those)
    text = first.text
    if len(those) > 1 and first.code == "bouncing":
        back = f"Of {len(those)} senders so much mail came back in 7 days that others begin to refuse it."
        text = Sentence("senders-bouncing", back, number=len(those))
    elif len(those) > 1:
        reasons = {one.text.values["reason"] for one in those}
        reason = reasons.pop() if len(reasons) == 1 else called(first.code)  # each sender's own is told below
        mail = counted(waiting, "message waits", "messages wait")
        held = f"{len(those)} senders are held back ({reason or 'no reason given'}): {mail}."
        text = Sentence("senders-held", held, number=len(those), reason=reason, waiting=waiting, cause=first.code)
    senders = tuple(one.sender for one in those if one.sender is not None)
    return Cause(first.level, first.code, text, waiting, senders, tuple(one.text for one in those))
