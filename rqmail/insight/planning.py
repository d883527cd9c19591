"""When the mail of mailboxes will be through, and what if: more messages, other limits, a later start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rqmail.clock import Clock, from_epoch_ms, to_epoch_ms
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.insight.configured import Configured, configured
from rqmail.insight.simulation import Budgets, Lot, done_at_ms
from rqmail.models.lots import WaitingLot, waiting_lots
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.pacing import Pacing

#: How often the shares of a pool are evened out; each time brings its members' ends several times closer together.
_ROUNDS = 6

#: A pause longer than this has no end in sight: a person's, until somebody ends it.
_NO_END_MS = 365 * 86_400_000

MOST_MESSAGES = 100_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked: ``messages`` more, shared by ``mailboxes`` (keys; none are all of them), under other limits.

    ``at`` is when the further messages begin.
    """

    mailboxes: tuple[str, ...] = ()
    messages: int = 0
    recipients_each: int = 1
    per_minute: int | None = None
    recipients_per_day: int | None = None
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class MailboxForecast:
    """One mailbox: how many messages wait, how many of the further ones it gets, and when all of them have left.

    ``done_on`` is ``None`` while nobody can tell: its pause has no end, or a message is larger than a whole day.
    """

    waiting: int
    further: int
    done_on: datetime | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the last message leaves, of all mailboxes asked about and of each."""

    at: datetime
    messages: int
    done_on: datetime | None
    mailboxes: Mapping[str, MailboxForecast]


class Planning:
    """Simulates the limiter's own windows over what waits; ``defaults`` are the limits of who has none of its own."""

    def __init__(
        self, limiter: MailRateLimiter, clock: Clock, defaults: RateLimits, *, rolling: bool, pacing: Pacing
    ) -> None:
        self._limiter = limiter
        self._clock = clock
        self._defaults = defaults
        self._rolling = rolling
        self._pacing = pacing

    def forecast(self, plan: Plan) -> Forecast:
        """Answer when it will be done; raises ``InvalidInputError`` or ``NotFoundError`` for what cannot be asked.

        ``ConflictError`` says that Redis cannot tell what is used now.
        """
        _check(plan)
        now = self._clock()
        known = {name: one for name, one in configured(self._defaults, self._pacing).items() if one.limits}
        asked = self._asked(plan, known)
        keys = {one.budget_key or "": name for name, one in asked.items()}
        # Whoever shares the mailbox shares its budget.
        sharing = defaultdict(list)
        for name, one in known.items():
            if one.budget_key in keys:
                sharing[one.budget_key].append(name)
        lots: defaultdict[str, list[WaitingLot]] = defaultdict(list)
        for lot in waiting_lots([name for names in sharing.values() for name in names], now):
            lots[known[lot.sender].budget_key or ""].append(lot)
        budgets = self._budgets(asked, plan, now)
        lines = {
            key: [
                Lot(one.messages, one.recipients_each, _ms(one.not_before), one.upload_bytes_each) for one in lots[key]
            ]
            for key in budgets
        }
        shares = _shares(budgets, lines, plan, now)
        ends = {key: _end(budgets[key], lines[key], shares[key], plan, now) for key in budgets}
        mailboxes = {
            keys[key]: MailboxForecast(
                sum(lot.messages for lot in lines[key]), shares[key], None if end is None else from_epoch_ms(end)
            )
            for key, end in ends.items()
        }
        told = [end for end in ends.values() if end is not None]
        last = from_epoch_ms(max(told)) if told and len(told) == len(ends) else None
        total = sum(one.waiting + one.further for one in mailboxes.values())
        return Forecast(now, total, last, mailboxes)

    def _asked(self, plan: Plan, known: Mapping[str, Configured]) -> dict[str, Configured]:
        if not plan.mailboxes:
            return {name: one for name, one in known.items() if name.startswith("mailbox:")}
        asked = {}
        for key in plan.mailboxes:
            if f"mailbox:{key}" not in known:
                raise NotFoundError("mailbox", key)
            asked[f"mailbox:{key}"] = known[f"mailbox:{key}"]
        return asked

    def _budgets(self, asked: Mapping[str, Configured], plan: Plan, now: datetime) -> dict[str, Budgets]:
        limits: dict[str, RateLimits] = {}
        for one in asked.values():
            own = one.limits or self._defaults
            limits[one.budget_key or ""] = replace(
                own,
                per_minute=plan.per_minute or own.per_minute,
                recipients_per_day=plan.recipients_per_day or own.recipients_per_day,
            )
        usages, held = self._limiter.usage(limits), self._limiter.held(limits)
        if limits.keys() - held.keys():
            raise ConflictError("What is used now cannot be told while Redis is away; nothing can be forecast.")
        budgets = {}
        for one in asked.values():
            key = one.budget_key or ""
            kept = one.pause.until if one.pause and one.pause.until > now else None
            budgets[key] = Budgets(
                limits[key].per_minute,
                limits[key].recipients_per_day,
                rolling=self._rolling,
                pacing=one.pacing,
                calls=held[key].calls,
                recipients=held[key].recipients,
                paused_until_ms=max(usages[key].paused_until_ms or 0, _ms(kept)),
                upload_bytes=limits[key].upload_bytes,
                uploads=held[key].uploads,
            )
        return budgets


def _check(plan: Plan) -> None:
    for name, value, least, most in (
        ("messages", plan.messages, 0, MOST_MESSAGES),
        ("recipients-each", plan.recipients_each, 1, 500),
        ("per-minute", plan.per_minute, 1, 1_000_000),
        ("recipients-per-day", plan.recipients_per_day, 1, 1_000_000_000),
    ):
        if value is not None and not least <= value <= most:
            raise InvalidInputError(name, value, f"a whole number from {least:,} to {most:,}")
    if len(set(plan.mailboxes)) < len(plan.mailboxes):
        raise InvalidInputError("mailbox", ", ".join(plan.mailboxes), "each mailbox once")


def _end(budgets: Budgets, line: Sequence[Lot], share: int, plan: Plan, now: datetime) -> int | None:
    now_ms = to_epoch_ms(now)
    if budgets.paused_until_ms - now_ms > _NO_END_MS and (line or share):
        return None
    further = [Lot(share, plan.recipients_each, _ms(plan.at))] if share else []
    return done_at_ms(budgets, [*line, *further], now_ms) if line or further else now_ms


def _shares(
    budgets: Mapping[str, Budgets], lines: Mapping[str, Sequence[Lot]], plan: Plan, now: datetime
) -> dict[str, int]:
    """Share the further messages so that all members of the pool are done at about the same time."""
    now_ms = to_epoch_ms(now)
    able = {key: one for key, one in budgets.items() if one.paused_until_ms - now_ms <= _NO_END_MS} or budgets
    weights = {key: float(min(one.per_minute * 1_440, one.recipients_per_day)) for key, one in able.items()}
    shares = dict.fromkeys(budgets, 0) | _dealt(plan.messages, weights)
    for _ in range(_ROUNDS if plan.messages and len(able) > 1 else 0):
        took = {}
        for key in able:
            end = _end(budgets[key], lines[key], shares[key], plan, now)
            took[key] = max(1, (end or now_ms) - max(now_ms, _ms(plan.at)))
        # Who would be done before the others gets more, who would be done after them less.
        target = sum(took.values()) / len(took)
        weights = {key: max(1, shares[key]) * min(4.0, max(0.25, target / took[key])) for key in able}
        shares |= _dealt(plan.messages, weights)
    return shares


def _dealt(messages: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divide so many messages by weight, all of them: what rounding leaves goes to the first."""
    if not weights:
        return {}
    total = sum(weights.values())
    shares = {key: int(messages * weight / total) for key, weight in weights.items()}
    first = next(iter(shares))
    shares[first] += messages - sum(shares.values())
    return shares


def _ms(moment: datetime | None) -> int:
    return 0 if moment is None else to_epoch_ms(moment)
