"""A tick is asked for when mail comes in: at once, once more where one had just been asked for, and never in heaps."""

from __future__ import annotations

import threading

import pytest

from rqmail.intake.nudging import Nudger, _in_a_thread


@pytest.fixture
def asked() -> list[str]:
    return []


def nudger(asked, later, *answers):
    given = iter(answers)

    def ask() -> bool:
        asked.append("now")
        answer = next(given)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Nudger(ask, lambda _seconds, work: later.append(work))


def test_what_is_taken_is_not_asked_for_again(asked):
    later = []
    nudger(asked, later, True)()
    assert (asked, later) == (["now"], [])


def test_what_came_just_after_another_is_asked_for_once_more_however_much_it_was(asked):
    later = []
    nudge = nudger(asked, later, False, True, False)
    for _ in range(3):
        nudge()
    assert (len(asked), len(later)) == (1, 1)
    later.pop()()
    assert len(asked) == 2
    nudge()
    assert len(later) == 1, "the next is a new one"


def test_refused_again_somebody_else_asked_meanwhile_and_that_is_enough(asked):
    later = []
    nudger(asked, later, False, False)()
    later.pop()()
    assert (len(asked), later) == (2, [])


def test_nobody_hears_of_an_error_that_comes_later(asked):
    later = []
    nudger(asked, later, False, ConnectionError("no Redis here"))()
    later.pop()()
    assert len(asked) == 2


def test_the_second_asking_comes_by_itself():
    done = threading.Event()
    answers = iter([False, True])

    def ask() -> bool:
        answer = next(answers)
        if answer:
            done.set()
        return answer

    Nudger(ask, _in_a_thread)()
    assert done.wait(10)
