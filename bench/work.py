"""What a message costs while thousands wait: job runs and reservations tried, against refusing and rescheduling all.

One mailbox at 25 a minute, everything due at once, a moved clock. The reference tries every due message, and those the
limiter refuses come back when it said, plus a spread: its work grows with the square of the backlog.
"""

from __future__ import annotations

import heapq
import uuid
from dataclasses import dataclass

from bench.moved import MovedCampaign, MovedClock
from bench.progress import tell
from bench.row import Row
from bench.system import System, add_mailboxes, count, submit, system
from rqmail.clock import to_epoch_ms
from rqmail.ratelimit.limiter import Denial, MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.spread import compute_spread_ms

NAME = "work"


@dataclass(frozen=True, slots=True)
class _PerMessage:
    """Work done for one message sent."""

    jobs: float
    handed_over: float
    tried: float
    minutes: float


def run(quick: bool) -> list[Row]:
    """Measure ours at two sizes of backlog, the reference at the smaller one."""
    small, large = (50, 150) if quick else (300, 3_000)
    with system("sqlite") as parts:
        few = _ours(parts, small)
        many = _ours(parts, large)
        reference = _refused_and_rescheduled(parts, small)
    note = f"{large} due, {many.minutes:.0f} min; reference: {small} due, all tried and rescheduled"
    return [
        Row.judged(
            NAME, "RQ jobs per message sent", many.jobs, "jobs", reference=reference, figure=many.jobs,
            at_most=1.05, note=note,
        ),
        Row.judged(
            NAME, "times a message was handed to a worker, per message sent", many.handed_over, "times",
            reference=reference, figure=many.handed_over, at_most=1.05, note=note,
        ),
        Row.judged(
            NAME, "reservations tried per message sent", many.tried, "times",
            reference=reference, figure=many.tried, at_most=1.05, note=note,
        ),
        Row.judged(
            NAME, f"reservations and hand-overs at {large} against {small} due", many.tried + many.handed_over,
            "times", reference=few.tried + few.handed_over, at_most=1.05, note="flat is 1",
        ),
    ]  # fmt: skip


def _ours(parts: System, number: int) -> _PerMessage:
    tell(f"{NAME}: {number} due on one mailbox")
    parts.clean()
    campaign = MovedCampaign(parts)
    submit(add_mailboxes(1), number)
    campaign.clock.move()
    while count("SENT") < number:
        campaign.second()
        if campaign.ticks > 3 * 60 * number / 25 + 120:
            raise RuntimeError(f"{count('SENT')} of {number} sent after {campaign.ticks} s")
    return _PerMessage(
        campaign.jobs / number, campaign.handed_over / number, campaign.limiter.tried / number, campaign.ticks / 60
    )


def _refused_and_rescheduled(parts: System, number: int) -> float:
    """Answer the job runs (each tries one reservation) per message sent of the simple design, on the real limiter."""
    tell(f"{NAME}: {number} due, refused and rescheduled")
    parts.redis.flushall()
    clock = MovedClock()
    limiter = MailRateLimiter.from_url(parts.environment["RQMAIL_REDIS_URL"], window="fixed", clock=clock)
    due = [(to_epoch_ms(clock()), str(uuid.uuid4())) for _ in range(number)]
    heapq.heapify(due)
    runs = 0
    while due:
        now = to_epoch_ms(clock())
        while due and due[0][0] <= now:
            _, message = heapq.heappop(due)
            runs += 1
            answer = limiter.check_and_reserve("m0@contoso.example", 1, RateLimits())
            if isinstance(answer, Denial):
                heapq.heappush(due, (now + answer.retry_after_ms + compute_spread_ms(message), message))
            else:
                limiter.settle(answer)
        clock.move()
    limiter.close()
    return runs / number
