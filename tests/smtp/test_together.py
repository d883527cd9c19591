"""Mails that come at the same time are stored together, and each for itself all the same."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from rqmail.errors import ConflictError
from rqmail.intake.idempotency import HandedIn, Repeatable
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message
from rqmail.smtp.together import Together
from smtp.conftest import Listening
from smtp.talking import FROM, mail, stored
from support.messages import new_message

on_both = pytest.mark.parametrize("application", ["sqlite", "postgresql"], indirect=True)


def test_who_comes_while_work_is_going_on_is_served_by_the_next_together() -> None:
    went_on, may_go_on, calls = threading.Event(), threading.Event(), []

    def work(questions):
        calls.append(list(questions))
        went_on.set()
        may_go_on.wait(10)
        return [-one for one in questions]

    together = Together(work)
    with ThreadPoolExecutor(5) as threads:
        first = threads.submit(together, 1)
        assert went_on.wait(10)
        others = [threads.submit(together, number) for number in (2, 3, 4)]
        while len(together._waiting) < 3:
            threading.Event().wait(0.001)
        may_go_on.set()
        assert [first.result(10), *(one.result(10) for one in others)] == [-1, -2, -3, -4]
    assert calls[0] == [1]
    assert sorted(calls[1]) == [2, 3, 4]


def test_an_answer_that_is_an_error_is_raised_for_whose_it_is_and_one_of_the_work_for_everybody() -> None:
    together = Together(lambda questions: [ValueError(one) if one == "bad" else one for one in questions])
    assert together("good") == "good"
    with pytest.raises(ValueError, match="bad"):
        together("bad")

    def breaks(_questions):
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        Together(breaks)("good")


def handed_in(key: str | None, **fields: str) -> HandedIn:
    request = None if key is None else Repeatable("smtp erp", key, "")
    return HandedIn(new_message("mailbox:invoices", **fields), request, "erp")


def count() -> int:
    with pooled_connection():
        return Message.select().count()


@on_both
def test_what_comes_twice_in_one_go_or_came_before_is_stored_once(application) -> None:
    submission = application.submission
    [earlier] = submission.submit_each([handed_in("a")])
    answers = submission.submit_each([handed_in("a"), handed_in("b"), handed_in("b"), handed_in(None)])
    assert answers[0].ids == earlier.ids
    assert answers[2].ids == answers[1].ids
    assert [one.replayed for one in answers] == [True, False, True, False]
    assert count() == 3


@on_both
def test_one_that_cannot_be_stored_takes_no_other_with_it(application, monkeypatch) -> None:
    submission = application.submission
    bad = handed_in("bad")
    store = type(application.intake).store

    def refuses(intake, messages, on_stored=lambda _: None):
        if bad.message in messages:
            raise ConflictError("not this one")
        store(intake, messages, on_stored)

    monkeypatch.setattr(type(application.intake), "store", refuses)
    answers = submission.submit_each([handed_in("a"), bad, handed_in("b")])
    assert [type(one).__name__ for one in answers] == ["Submitted", "ConflictError", "Submitted"]
    assert count() == 2


@on_both
def test_many_clients_at_the_same_moment_each_hear_of_their_own_mail(door: Listening) -> None:
    def send(number: int) -> str:
        with door.client() as client:
            client.ehlo()
            client.mail(FROM)
            client.rcpt("a@x.nl")
            code, text = client.data(mail(Subject=f"nr {number}", Message_ID=f"<{number // 2}@erp>").as_bytes())
            assert code == 250, text
            return text.decode().split()[3]

    with ThreadPoolExecutor(10) as threads:
        ids = list(threads.map(send, range(20)))
    rows = {row.id: row.subject for row in stored()}
    assert len(rows) == 10, "each of these came twice"
    for number, message_id in enumerate(ids):
        assert rows[message_id] in {f"nr {number // 2 * 2}", f"nr {number // 2 * 2 + 1}"}
