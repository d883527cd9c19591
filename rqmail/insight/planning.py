"""When the mail of mailboxes will be through, and what if: more messages, other limits, a later start."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from rqmail.clock import Clock, to_epoch_ms
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.insight.configured import Configured, configured
from rqmail.insight.forecast import done_on, has_end
from rqmail.insight.passing import passing_budgets
from rqmail.insight.simulation import Budgets, Lot, Simulation, in_order
from rqmail.models.lots import WaitingLot, waiting_lots
from rqmail.ratelimit.history import DAY_MS
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.pacing import Pacing
from rqmail.ratelimit.scopes import TenantBudgets

#: Members that are done within so many ms of each other, or this part of the time it takes, are done at about the same
#: time.
_ALIKE_MS = 60_000
_ALIKE_SHARE = 200

#: How often the end is looked for where mail that comes due meanwhile puts it off; then all mail for later counts.
_LOOKS = 8
_LATEST_MS = 2**62

#: What may be asked at most.
MOST_MESSAGES = 100_000_000
MOST_RECIPIENTS_EACH = 500
MOST_PER_MINUTE = 1_000_000
MOST_PER_DAY = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Plan:
    """What is asked: ``messages`` more, shared by ``mailboxes`` (keys; none are all of them), under other limits.

    ``at`` is when the further messages begin. ``only_these`` asks when they are through: mail that waits for a moment
    after that is not waited for.
    """

    mailboxes: tuple[str, ...] = ()
    messages: int = 0
    recipients_each: int = 1
    per_minute: int | None = None
    recipients_per_day: int | None = None
    at: datetime | None = None
    only_these: bool = False


@dataclass(frozen=True, slots=True)
class MailboxForecast:
    """One mailbox: how many messages wait, how many of the further ones it gets, and when all of them have left.

    ``done_on`` is ``None`` while nobody can tell: its pause has no end, a message is larger than a whole day, or it
    would take a hundred years.
    """

    waiting: int
    further: int
    done_on: datetime | None


@dataclass(frozen=True, slots=True)
class Forecast:
    """When the last message leaves, of all mailboxes asked about and of each, by its key."""

    at: datetime
    messages: int
    done_on: datetime | None
    mailboxes: Mapping[str, MailboxForecast]


class Planning:
    """Simulates the limiter's own windows over what waits; ``defaults`` are the limits of who has none of its own."""

    def __init__(
        self,
        limiter: MailRateLimiter,
        clock: Clock,
        defaults: RateLimits,
        *,
        pacing: Pacing,
        shared: TenantBudgets | None = None,
    ) -> None:
        self._shared = shared or TenantBudgets()
        self._limiter = limiter
        self._clock = clock
        self._defaults = defaults
        self._pacing = pacing

    def forecast(self, plan: Plan) -> Forecast:
        """Answer when it will be done; raises ``InvalidInputError`` or ``NotFoundError`` for what cannot be asked.

        ``ConflictError`` says that Redis cannot tell what is used now.
        """
        _check(plan)
        now = self._clock()
        everybody = configured(self._defaults, self._pacing, self._shared)
        known = {name: one for name, one in everybody.items() if one.limits}
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
        budgets = self._budgets(asked, known, plan, now)
        lines = {
            key: [
                Lot(one.messages, one.recipients_each, _ms(one.not_before), one.upload_bytes_each) for one in lots[key]
            ]
            for key in budgets
        }
        shares, ends = _passed_by(budgets, lines, plan, now)
        mailboxes = {
            asked[keys[key]].key: MailboxForecast(sum(lot.messages for lot in lines[key]), shares[key], end)
            for key, end in ends.items()
        }
        told = [end for end in ends.values() if end is not None]
        last = max(told) if told and len(told) == len(ends) else None
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

    def _budgets(
        self, asked: Mapping[str, Configured], known: Mapping[str, Configured], plan: Plan, now: datetime
    ) -> dict[str, Budgets]:
        wanted = {}
        for name, one in asked.items():
            own = one.limits or self._defaults
            per_minute = plan.per_minute or own.per_minute
            per_day = plan.recipients_per_day or own.recipients_per_day
            wanted[name] = replace(one, limits=replace(own, per_minute=per_minute, recipients_per_day=per_day))
        usages = self._limiter.usage({one.pause_key: one.limits or self._defaults for one in wanted.values()})
        budgets = passing_budgets(self._limiter, wanted, known, usages, now)
        if wanted.keys() - budgets.keys():
            raise ConflictError("What is used now cannot be told while Redis is away; nothing can be forecast.")
        return {wanted[name].budget_key or "": one for name, one in budgets.items()}


def _check(plan: Plan) -> None:
    for name, value, least, most in (
        ("messages", plan.messages, 0, MOST_MESSAGES),
        ("recipientsEach", plan.recipients_each, 1, MOST_RECIPIENTS_EACH),
        ("perMinute", plan.per_minute, 1, MOST_PER_MINUTE),
        ("recipientsPerDay", plan.recipients_per_day, 1, MOST_PER_DAY),
    ):
        if value is not None and not least <= value <= most:
            raise InvalidInputError(name, value, f"a whole number from {least:,} to {most:,}")
    if len(set(plan.mailboxes)) < len(plan.mailboxes):
        raise InvalidInputError("mailbox", ", ".join(plan.mailboxes), "each mailbox once")


def _passed_by(
    budgets: Mapping[str, Budgets], lines: Mapping[str, Sequence[Lot]], plan: Plan, now: datetime
) -> tuple[dict[str, int], dict[str, datetime | None]]:
    """Answer how the further messages are shared, and when each member of the pool is done."""
    moments = sorted({lot.not_before_ms for line in lines.values() for lot in line})
    until = max(to_epoch_ms(now), _ms(plan.at)) if plan.only_these else _LATEST_MS
    for attempt in range(_LOOKS):
        counted = {key: [lot for lot in line if lot.not_before_ms <= until] for key, line in lines.items()}
        shares = _shares(budgets, counted, plan, now)
        ends = {
            key: done_on(budget, [*counted[key], Lot(shares[key], plan.recipients_each, _ms(plan.at))], now)
            for key, budget in budgets.items()
        }
        last = max((to_epoch_ms(end) for end in ends.values() if end is not None), default=until)
        if not any(until < moment <= last for moment in moments):
            break
        # What comes due before the end goes first, and puts it off.
        until = last if attempt < _LOOKS - 2 else _LATEST_MS
    return shares, ends


def _shares(
    budgets: Mapping[str, Budgets], lines: Mapping[str, Sequence[Lot]], plan: Plan, now: datetime
) -> dict[str, int]:
    """Share the further messages so that all members of the pool are done at about the same time."""
    able = {key: one for key, one in budgets.items() if has_end(one, now)} or budgets
    # How many of them each may send in a millisecond, in the long run.
    rates = {
        key: min(one.per_minute * 1_440, one.recipients_per_day / plan.recipients_each) / DAY_MS
        for key, one in able.items()
    }
    shares = dict.fromkeys(budgets, 0) | _dealt(plan.messages, rates)
    if not plan.messages or len(able) == 1:
        return shares
    now_ms = to_epoch_ms(now)
    begins_ms = max(now_ms, _ms(plan.at))
    before = {key: _before_further(one, lines[key], now_ms, begins_ms) for key, one in able.items()}

    def left_by(until_ms: int) -> dict[str, int]:
        """Say how many of the further messages each could have sent by then, had it all of them."""
        whole = Lot(plan.messages, plan.recipients_each, begins_ms)
        return {key: plan.messages - one.copy().send(whole, until_ms) for key, one in before.items()}

    ends = []
    for key, one in before.items():
        simulation = one.copy()
        simulation.send(Lot(shares[key], plan.recipients_each, begins_ms))
        ends.append(simulation.done_ms or begins_ms)
    # By the first end fewer have left than there are, by the last one as many or more: the moment lies between.
    least, most = min(ends), max(ends)
    if most - least <= _ALIKE_MS:
        return shares
    while most - least > max(_ALIKE_MS, (most - begins_ms) // _ALIKE_SHARE):
        between = (least + most) // 2
        if sum(left_by(between).values()) < plan.messages:
            least = between
        else:
            most = between
    sooner, later = left_by(least), left_by(most)
    missing = plan.messages - sum(sooner.values())
    last = _dealt(missing, {key: float(later[key] - sooner[key]) for key in able})
    return shares | {key: sooner[key] + last[key] for key in able}


def _before_further(budgets: Budgets, line: Sequence[Lot], now_ms: int, begins_ms: int) -> Simulation:
    """Let go what goes before the further messages begin; uploads, which wait beside the others, count as those do."""
    simulation = Simulation(budgets, now_ms)
    begins = max(begins_ms, budgets.paused_until_ms)
    for lot in in_order(line, begins):
        if lot.not_before_ms <= begins:
            simulation.send(replace(lot, upload_bytes_each=0))
    return simulation


def _dealt(messages: int, weights: Mapping[str, float]) -> dict[str, int]:
    """Divide so many messages by weight, all of them."""
    total = sum(weights.values()) or 1.0
    shares, up_to, dealt = {}, 0.0, 0
    for key, weight in weights.items():
        up_to += weight
        shares[key] = round(messages * up_to / total) - dealt
        dealt += shares[key]
    return shares


def _ms(moment: datetime | None) -> int:
    return 0 if moment is None else to_epoch_ms(moment)
