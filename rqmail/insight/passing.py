"""How the budgets of mailboxes come free from now on: what the limiter holds of them, as a simulation takes it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime

from rqmail.insight.configured import Configured
from rqmail.insight.forecast import budgets_of
from rqmail.insight.simulation import Budgets
from rqmail.insight.standing import ENDLESS
from rqmail.insight.turns import needs_a_person, pause_of
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.pacing import Pacing, tighter
from rqmail.ratelimit.usage import Usage


def passing_budgets(
    limiter: MailRateLimiter,
    wanted: Mapping[str, Configured],
    known: Mapping[str, Configured],
    usages: Mapping[str, Usage],
    now: datetime,
) -> dict[str, Budgets]:
    """Read the budgets of the senders ``wanted``; what has none, or cannot be read, is left out.

    ``usages`` is what was found by the keys of their pauses. Whoever of the ``known`` ones shares a mailbox, shares its
    pace.
    """
    limits = {one.budget_key: one.limits for one in wanted.values() if one.budget_key and one.limits}
    held = limiter.held(limits) if limits else {}
    pacings: defaultdict[str | None, list[Pacing]] = defaultdict(list)
    for one in known.values():
        pacings[one.budget_key].append(one.pacing)
    budgets = {}
    for name, one in wanted.items():
        if one.budget_key in held and one.limits:
            usage = usages[one.pause_key]
            pause = pause_of(one.pause, usage, now)
            budgets[name] = budgets_of(
                one.limits,
                held[one.budget_key],
                rolling=usage.minute_rolling is not None,
                pacing=tighter(pacings[one.budget_key]),
                paused_until=None if pause is None else now + 2 * ENDLESS if needs_a_person(pause) else pause.until,
            )
    return budgets
