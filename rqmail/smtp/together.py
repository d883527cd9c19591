"""What several threads want at the same time is done for all of them at once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

_Q = TypeVar("_Q")
_A = TypeVar("_A")


@dataclass(slots=True, eq=False)
class _Asked(Generic[_Q, _A]):
    question: _Q
    answers: Sequence[_A | Exception] | None = None
    place: int = 0


class Together(Generic[_Q, _A]):
    """Whoever comes while ``work`` is going on waits, and the next call of it is for all that wait.

    ``work`` answers each question in its order; an exception among the answers is raised for whose it is.
    """

    def __init__(self, work: Callable[[Sequence[_Q]], Sequence[_A | Exception]]) -> None:
        self._work = work
        self._waiting: list[_Asked[_Q, _A]] = []
        self._lock = threading.Lock()
        self._at_work = threading.Lock()

    def __call__(self, question: _Q) -> _A:
        """Have the question answered, together with those that wait."""
        asked: _Asked[_Q, _A] = _Asked(question)
        with self._lock:
            self._waiting.append(asked)
        with self._at_work:
            if asked.answers is None:
                self._answer_all()
        assert asked.answers is not None  # noqa: S101 - by whoever was at work before, or by this thread
        answer = asked.answers[asked.place]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _answer_all(self) -> None:
        with self._lock:
            these, self._waiting = self._waiting, []
        try:
            answers = self._work([one.question for one in these])
        except Exception as error:  # noqa: BLE001 - raised for each of them
            answers = [error] * len(these)
        for place, one in enumerate(these):
            one.place, one.answers = place, answers
