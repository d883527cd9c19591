"""A dispatcher with everything it needs, and a provider that takes every mail at once."""

from __future__ import annotations

from datetime import datetime, timedelta

from rqmail.delivery.dispatch import Dispatcher
from rqmail.delivery.feeding import Feeder
from rqmail.delivery.lanes import Lanes
from rqmail.delivery.outcomes import MailProviderService
from rqmail.delivery.senders import Sender, Senders
from rqmail.mailers.base import Mail, Receipt
from rqmail.mailers.factory import MailerFactory
from rqmail.mailers.rate_limited import RateLimitedGraphMailer
from rqmail.metrics import Metrics
from rqmail.models.mailbox import SystemMailbox
from rqmail.queue_state import MAIL, MAIL_HIGH
from rqmail.queues import MailJob, MailQueues
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.pacing import Pacer
from rqmail.settings import Settings
from rqmail.vault import SecretBox
from support.clock import START


class Office:
    """A dispatcher with everything it needs, and what a test asks of it."""

    def __init__(self, redis_client, clock, pacing="burst", shared=None, history=None, **options):
        self.clock = clock
        self.redis = redis_client
        self.limiter = MailRateLimiter(redis_client, clock=clock, history=history)
        self.queues = MailQueues(redis_client, clock, poll_seconds=1, job_timeout_seconds=100)
        settings_ = Settings(_env_file=None)
        factory = MailerFactory(settings_, self.limiter, clock=clock)
        self.senders = Senders(factory, SecretBox(None), RateLimits(), pacing=pacing, shared=shared)
        #: What the provider was given: when, which message, how many recipients.
        self.taken: list[tuple[datetime, str, int]] = []
        #: The addresses of each mail the provider was given, with what it said and who sent it.
        self.mails: list[tuple[str, Mail]] = []
        #: People who are not to be written to.
        self.suppressed: set[str] = set()
        self.metrics = Metrics(redis_client, clock)
        self.senders.mailer = self._mailer
        service = MailProviderService(
            self.senders,
            self.limiter,
            clock,
            self.metrics,
            max_attempts=8,
            unsubscribe_headers=lambda message, address: {
                "List-Unsubscribe": f"<https://x.example/{message.id}/{address}>"
            },
        )
        self._lanes = Lanes(
            service, self.senders, clock, width=1, lease=timedelta(minutes=2), start_within_seconds=60.0
        )
        self.dispatcher = Dispatcher(
            self.senders,
            self.limiter,
            self.queues,
            clock,
            Pacer(redis_client, poll_seconds=1),
            self.metrics,
            feed=Feeder(
                self.senders, self.limiter, clock, reserve_for_high=0, suppressed=lambda _: self.suppressed
            ).feed,
            **({"reserve_for_high": 0, "lanes": 32, "rounds": 16, "queued_at_most": 10_000} | options),
        )

    def mailbox(self, key="news", address=None, **fields):
        fields = {"created_on": START, "changed_on": START} | fields
        SystemMailbox.create(key=key, address=address or f"{key}@example.org", **fields)
        self.senders.forget()
        return f"mailbox:{key}"

    def tick(self):
        return self.dispatcher.tick()

    def jobs(self, queue=MAIL):
        """The message ids of each waiting job."""
        ids = [job_id.decode() for job_id in self.redis.lrange(f"rq:queue:{queue}", 0, -1)]
        return [MailJob.fetch(job_id, connection=self.redis).args[0] for job_id in ids]

    def _mailer(self, sender: Sender):
        return RateLimitedGraphMailer(
            _Takes(self, sender.name), self.limiter, sender.budget_key, sender.limits, shared=sender.shared
        )

    def work(self) -> list[str]:
        """Send what is queued as a worker does, urgent mail first, and answer the ids the provider took."""
        before = len(self.taken)
        for queue in (MAIL_HIGH, MAIL):
            ids = [message_id for job in self.jobs(queue) for message_id in job]
            self.queues._queues[queue].empty()
            if ids:
                self._lanes.send(ids)
        return [message_id for _, message_id, _ in self.taken[before:]]

    def recipients_taken(self, start: datetime, end: datetime) -> int:
        """How many recipients the provider was given in a stretch of time."""
        return sum(count for at, _, count in self.taken if start <= at < end)


class _Takes:
    """The mailer of one sender: it takes everything, if the limiter lets it through."""

    def __init__(self, office: Office, sender: str) -> None:
        self._office = office
        self._sender = sender

    def send(self, mail: Mail) -> Receipt:
        self._office.taken.append((self._office.clock(), mail.id, mail.recipient_count))
        self._office.mails.append((self._sender, mail))
        return Receipt(202)
