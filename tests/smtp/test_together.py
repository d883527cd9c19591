"""Mails that come at the same time are stored together, and each for itself all the same."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import replace

import pytest

from rqmail.errors import ConflictError
from rqmail.intake.idempotency import HandedIn, Repeatable
from rqmail.models.access import IdempotencyKey
from rqmail.models.base import AWAY_ERRORS, pooled_connection
from rqmail.models.message import Message
from rqmail.smtp.together import Together
from smtp.conftest import Listening
from smtp.talking import FROM, mail, stored
from support.messages import new_message

on_both = pytest.mark.parametrize("application", ["sqlite", "postgresql"], indirect=True)


def test_who_comes_while_work_is_going_on_is_served_by_the_next_together() -> None:
    may_go_on, calls = threading.Event(), []

    def work(questions):
        calls.append(list(questions))
        may_go_on.wait(10)
        return [-one for one in questions]

    async def ask(threads: Executor) -> list[int]:
        together = Together(work, threads)
        first = asyncio.ensure_future(together(1))
        while not calls:
            await asyncio.sleep(0)
        others = [asyncio.ensure_future(together(number)) for number in (2, 3, 4)]
        hung_up = asyncio.ensure_future(together(5))
        await asyncio.sleep(0)
        hung_up.cancel()
        may_go_on.set()
        return list(await asyncio.gather(first, *others))

    with ThreadPoolExecutor(5) as threads:
        assert threads.submit(asyncio.run, ask(threads)).result() == [-1, -2, -3, -4]
    assert calls == [[1], [2, 3, 4, 5]]


def test_an_answer_that_is_an_error_is_raised_for_whose_it_is_and_one_of_the_work_for_everybody() -> None:
    def breaks(_questions):
        raise RuntimeError("no")

    async def ask(threads: Executor) -> None:
        each = Together(lambda asked: [ValueError(one) if one == "bad" else one for one in asked], threads)
        good, bad = await asyncio.gather(each("good"), each("bad"), return_exceptions=True)
        assert good == "good"
        assert isinstance(bad, ValueError)
        with pytest.raises(RuntimeError):
            await Together(breaks, threads)("good")

    with ThreadPoolExecutor(2) as threads:
        threads.submit(asyncio.run, ask(threads)).result()


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

    def refuses(intake, messages, on_stored=None, **keys):
        if bad.message in messages:
            raise ConflictError("not this one")
        store(intake, messages, on_stored, **keys)

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


@on_both
def test_mails_of_two_callers_are_stored_apart_and_each_is_answered_in_its_place(application, monkeypatch) -> None:
    submission = application.submission
    [earlier] = submission.submit_each([handed_in("a")])
    other = replace(handed_in("a"), request=Repeatable("smtp other", "a", ""), by="other")
    store = type(application.intake).store

    def refuses(intake, messages, on_stored=None, **keys):
        if other.message in messages:
            raise application_away
        store(intake, messages, on_stored, **keys)

    application_away = AWAY_ERRORS[0]("away")
    with monkeypatch.context() as patch:
        patch.setattr(type(application.intake), "store", refuses)
        answers = submission.submit_each([handed_in(None), other, handed_in("a")])
    assert answers[1] is application_away
    assert (answers[2].ids, answers[2].replayed) == (earlier.ids, True)
    assert count() == 2, "what has no key is stored once, though others were not"
    assert not submission.submit_each([other])[0].replayed


@on_both
def test_a_key_is_forgotten_after_a_day_and_its_row_with_the_next_purge(application, clock) -> None:
    submission = application.submission
    submission.submit_each([handed_in("a"), handed_in("b")])
    clock.advance(hours=24)
    assert not submission.submit_each([handed_in("a")])[0].replayed
    submission.submit_each([handed_in("c")])
    clock.advance(hours=24)
    application.retention.run()
    with pooled_connection():
        assert not IdempotencyKey.select().count()
    assert count() == 4
