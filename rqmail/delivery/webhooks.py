"""Webhooks are told: what is due for each of them is delivered, tried again later, and given up in the end.

Each webhook stands alone: one that does not answer is left alone for a growing time, and costs one call each time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from rqmail.clock import Clock, monotonic
from rqmail.errors import SettingsError
from rqmail.logs import event_log
from rqmail.mailers.webhook import Told
from rqmail.models import events, webhooks
from rqmail.models.base import AWAY_ERRORS
from rqmail.models.webhooks import Due, Webhook
from rqmail.vault import SecretBox

log = event_log()

#: A pass begins no call later than this: it takes a worker's time, which is the mail's.
_PASS_SECONDS = 2.0

#: Webhooks served side by side, calls to one of them side by side, and deliveries of one taken from the table at once.
_WEBHOOKS_AT_ONCE = 8
_CALLS_AT_ONCE = 4
_TAKEN_AT_ONCE = 40

#: What a pass has taken is left alone by others for so long: longer than any pass.
_TAKEN_FOR = timedelta(seconds=60)

#: An event that was not taken is due again after the first, four times as long each time up to the second.
RETRY_FIRST = timedelta(seconds=10)
RETRY_LONGEST = timedelta(hours=6)

#: A webhook that failed is left alone, with all that waits for it: doubling from the first to the second.
HELD_FIRST = timedelta(seconds=10)
HELD_LONGEST = timedelta(minutes=15)

#: Deliveries on which nothing waits any more are kept for so long.
KEPT_FOR = timedelta(days=14)
_FORGOTTEN_AT_ONCE = 1_000

#: HTTP 410: the receiver is gone for good, and asks to be called no more.
_GONE = 410


class Caller(Protocol):
    """Tells receivers of events."""

    def tell(self, url: str, secret: str, event_id: str, body: str) -> Told:
        """Send one event, and say what became of it."""
        ...


@dataclass(slots=True)
class WebhooksReport:
    """What one pass did: events delivered, not taken (and to be tried again), given up."""

    delivered: int = 0
    failed: int = 0
    given_up: int = 0


@dataclass(slots=True)
class _Serving:
    """One webhook while it is served in a pass."""

    webhook: Webhook
    secret: str
    taken: int = 0
    failed: int = 0
    given_up: int = 0
    over: threading.Event = field(default_factory=threading.Event)


class WebhookDeliverer:
    """Delivers what is due to every webhook; a pass beside another takes other deliveries."""

    def __init__(
        self, box: SecretBox, caller: Caller, clock: Clock, *, monotonic: Callable[[], float] = monotonic
    ) -> None:
        self._box = box
        self._caller = caller
        self._clock = clock
        self._monotonic = monotonic

    def run(self) -> WebhooksReport:
        """Make one pass, of a few seconds at most."""
        until = self._monotonic() + _PASS_SECONDS
        now = self._clock()
        report = WebhooksReport(given_up=webhooks.give_up_expired(now))
        served = webhooks.to_serve(now)
        if served:
            with ThreadPoolExecutor(min(len(served), _WEBHOOKS_AT_ONCE), "rqmail-webhooks") as pool:
                for one in pool.map(lambda webhook: self._serve(webhook, until), served):
                    report.delivered += one.taken
                    report.failed += one.failed
                    report.given_up += one.given_up
        webhooks.forget_done(now - KEPT_FOR, limit=_FORGOTTEN_AT_ONCE)
        return report

    def _serve(self, webhook: Webhook, until: float) -> _Serving:
        serving = _Serving(webhook, "")
        try:
            serving.secret = self._box.decrypt(webhook.secret_encrypted)
            while not serving.over.is_set() and self._monotonic() < until:
                now = self._clock()
                due = webhooks.claim(webhook.id, now, until=now + _TAKEN_FOR, limit=_TAKEN_AT_ONCE)
                if not due:
                    break
                self._deliver(serving, due, until)
        except SettingsError as error:
            self._fails(serving, str(error), None)
        except AWAY_ERRORS:
            log.warning("mail.webhook.databaseAway", webhook=webhook.id)  # what was taken is due again in a minute
        if serving.taken and not serving.failed:
            webhooks.note_works(webhook.id, self._clock())
        return serving

    def _deliver(self, serving: _Serving, due: Sequence[Due], until: float) -> None:
        """Tell a webhook of these; after a failure, or when time is up, the rest is due again."""

        def deliver(one: Due) -> str | None:
            if serving.over.is_set() or self._monotonic() >= until:
                return one.event_id
            self._deliver_one(serving, one)
            return None

        # Whether one that failed works again is found out with one call.
        width = 1 if serving.webhook.failures else _CALLS_AT_ONCE
        if width == 1:
            left = [deliver(one) for one in due]
        else:
            with ThreadPoolExecutor(min(width, len(due)), "rqmail-webhook") as pool:
                left = list(pool.map(deliver, due))
        webhooks.put_back(serving.webhook.id, [one for one in left if one is not None], self._clock())

    def _deliver_one(self, serving: _Serving, one: Due) -> None:
        webhook = serving.webhook
        told = self._caller.tell(webhook.url, serving.secret, one.event_id, one.payload)
        now = self._clock()
        if told.error is None:
            webhooks.note_delivered(webhook.id, one.event_id, told.status or 0, now)
            serving.taken += 1
            return
        wait = max(_doubled(RETRY_FIRST, RETRY_LONGEST, 2 * one.attempts), timedelta(seconds=told.retry_after or 0))
        due_on: datetime | None = now + wait
        if told.status == _GONE or now + wait >= one.give_up_on:
            due_on = None
            serving.given_up += 1
        webhooks.note_failed(webhook.id, one.event_id, told.status, told.error, due_on)
        log.warning(
            "mail.webhook.failed",
            webhook=webhook.id,
            eventId=one.event_id,
            type=one.type,
            attempts=one.attempts + 1,
            reason=told.error,
            givenUp=due_on is None,
        )
        self._fails(serving, told.error, told)

    def _fails(self, serving: _Serving, error: str, told: Told | None) -> None:
        serving.failed += 1
        first = not serving.over.is_set()
        serving.over.set()
        if first:
            now = self._clock()
            hold = _doubled(HELD_FIRST, HELD_LONGEST, serving.webhook.failures)
            hold = max(hold, timedelta(seconds=(told.retry_after or 0) if told else 0))
            gone = told is not None and told.status == _GONE
            webhooks.note_fails(serving.webhook.id, error, now, held_until=now + hold, disable=gone)
            if gone:
                events.look_again()


def _doubled(first: timedelta, longest: timedelta, times: int) -> timedelta:
    return longest if times > 30 else min(first * 2**times, longest)
