"""A campaign across midnight UTC, a day and more of it with a moved clock: what the windows let through."""

from __future__ import annotations

from collections import deque
from datetime import UTC, datetime, timedelta

import pytest

from rqmail import bootstrap
from rqmail.delivery.senders import Sender, Senders
from rqmail.mailers.base import Mail, Receipt
from rqmail.mailers.rate_limited import RateLimitedGraphMailer
from rqmail.models.base import db
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageStatus
from rqmail.queue_state import MAIL
from rqmail.queues import MailJob
from rqmail.settings import load_settings
from support.clock import MovableClock
from support.databases import bound
from support.messages import new_message

EVENING = datetime(2026, 3, 10, 23, 0, 7, tzinfo=UTC)
MIDNIGHT = datetime(2026, 3, 11, tzinfo=UTC)
DAY = timedelta(days=1)

#: Twenty recipients a message: a day's 9,000 are used up in eighteen minutes.
RECIPIENTS = 20
MESSAGES = 1_000


class Instant:
    """A provider that takes everything at once and remembers when."""

    def __init__(self, clock: MovableClock) -> None:
        self._clock = clock
        self.taken: list[tuple[datetime, int]] = []

    def send(self, mail: Mail) -> Receipt:
        self.taken.append((self._clock(), mail.recipient_count))
        return Receipt(202)

    def most_within(self, span: timedelta) -> tuple[int, int]:
        """The most calls, and the most recipients, in any window of this length."""
        window: deque[tuple[datetime, int]] = deque()
        calls = recipients = total = 0
        for at, count in self.taken:
            window.append((at, count))
            total += count
            while window[0][0] <= at - span:
                total -= window.popleft()[1]
            calls, recipients = max(calls, len(window)), max(recipients, total)
        return calls, recipients

    def recipients_between(self, start: datetime, end: datetime) -> int:
        return sum(count for at, count in self.taken if start <= at < end)


@pytest.fixture
def campaign(sqlite_database, redis_url, monkeypatch):
    """Run a campaign that begins at eleven in the evening for as many hours as asked."""
    applications = []

    def run(window: str, hours: int) -> Instant:
        clock = MovableClock(EVENING)
        provider = Instant(clock)
        app = bootstrap.build(
            load_settings(database_url=sqlite_database.url, redis_url=redis_url, rate_window=window, pacing="burst"),
            clock,
        )
        applications.append(app)
        db.obj.close_all()

        def mailer(_self: Senders, sender: Sender) -> RateLimitedGraphMailer:
            return RateLimitedGraphMailer(provider, app.limiter, sender.budget_key, sender.limits)

        monkeypatch.setattr(Senders, "mailer", mailer)
        with bound(sqlite_database.kind, sqlite_database.url):
            SystemMailbox.create(key="news", address="news@contoso.example", created_on=EVENING, changed_on=EVENING)
            Message.submit([new_message(to=RECIPIENTS) for _ in range(MESSAGES)], EVENING)
            for _ in range(hours * 60):
                app.dispatcher.tick()
                queue = app.queues._queues[MAIL]
                for job_id in queue.get_job_ids():
                    app.lanes.send(MailJob.fetch(job_id, connection=app.redis).args[0])
                queue.empty()
                clock.advance(seconds=60)
            assert not Message.select().where(Message.status == MessageStatus.ERROR.value).exists()
        return provider

    yield run
    for app in applications:
        app.limiter.close()
        app.redis.close()


def test_rolling_windows_never_let_more_than_a_days_recipients_through_in_any_24_hours(campaign):
    provider = campaign("rolling", 26)
    calls, _ = provider.most_within(timedelta(seconds=60))
    _, recipients = provider.most_within(DAY)
    assert calls <= 25
    assert recipients == 9_000
    # As soon as the evening's mail is a day old, the next goes out: within one slot of ten minutes.
    assert provider.recipients_between(EVENING + DAY, EVENING + DAY + timedelta(hours=1)) == 9_000


def test_fixed_windows_let_a_day_through_before_midnight_and_another_after_it(campaign):
    provider = campaign("fixed", 3)
    assert provider.recipients_between(EVENING, MIDNIGHT) == 9_000
    assert provider.recipients_between(MIDNIGHT, MIDNIGHT + timedelta(hours=2)) == 9_000
    assert provider.most_within(DAY)[1] == 18_000
