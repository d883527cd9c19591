"""What several clients want at the same time is done for all of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

_Q = TypeVar("_Q")
_A = TypeVar("_A")


class Together(Generic[_Q, _A]):
    """Whoever comes while ``work`` goes on in one of ``threads`` waits, and the next call of it is for all that wait.

    ``work`` answers each question in its order; an exception among the answers is raised for whose it is.
    """

    def __init__(self, work: Callable[[Sequence[_Q]], Sequence[_A | Exception]], threads: Executor) -> None:
        self._work = work
        self._threads = threads
        self._waiting: list[tuple[_Q, asyncio.Future[_A]]] = []
        self._at_work: asyncio.Task[None] | None = None

    async def __call__(self, question: _Q) -> _A:
        """Have the question answered, together with those that wait."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[_A] = loop.create_future()
        self._waiting.append((question, answer))
        if self._at_work is None:
            self._at_work = loop.create_task(self._answer_all())
        return await answer

    async def _answer_all(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            these, self._waiting = self._waiting, []
            answers: Sequence[_A | Exception]
            try:
                answers = await loop.run_in_executor(self._threads, self._work, [question for question, _ in these])
            except Exception as error:  # noqa: BLE001 - raised for each of them
                answers = [error] * len(these)
            for (_, future), answer in zip(these, answers, strict=True):
                if future.done():  # whoever asked has hung up
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
        self._at_work = None
