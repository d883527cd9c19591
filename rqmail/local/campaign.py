"""The sample campaign on its way: shown while it goes, and judged by what the sandbox accepted."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from contextlib import nullcontext

from rich.console import Console
from rich.live import Live

from rqmail.bootstrap import Application
from rqmail.insight.standing import Status
from rqmail.local import view
from rqmail.local.system import LocalSystem, RunFailedError
from rqmail.local.view import Outcome, Progress
from rqmail.models.counts import statuses_of
from rqmail.models.message import FINAL

#: Beyond the windows the campaign needs: one that an earlier run has used up, and room for a slow machine.
_GRACE_SECONDS = 90.0
#: Without a screen: how often a line is written while figures change, and while they do not.
_BUSY_SECONDS, _QUIET_SECONDS = 2.0, 15.0
_FINAL = frozenset(state.value for state in FINAL)


class CampaignWatch:
    """Shows a campaign until it is over; with ``once`` it must arrive, otherwise the system stays up."""

    def __init__(self, system: LocalSystem, console: Console, stopping: threading.Event, *, once: bool) -> None:
        self._system = system
        self._console = console
        self._stopping = stopping
        self._once = once

    def watch(self, app: Application, ids: dict[str, list[str]]) -> None:
        """Show what happens until it is over: all sent with ``once``, otherwise when told to stop."""
        campaign = {key: Progress(len(mine)) for key, mine in ids.items()}
        deadline = time.monotonic() + self._time_limit(app, campaign)
        told = not campaign
        shown_at, last = 0.0, None
        on_screen = self._console.is_terminal
        display = Live(console=self._console, auto_refresh=False, transient=True) if on_screen else None
        with display or nullcontext():
            while not self._stopping.wait(0.5):
                self._system.check()
                status = app.overview.status()
                for key, part in campaign.items():
                    part.states = dict(Counter(statuses_of(ids[key]).values()))
                    part.held_back = max(part.held_back, status.mailboxes[key].deferred)
                if display is not None:
                    display.update(view.live(status, {} if told else campaign, self._system.places), refresh=True)
                elif not told and _is_worth_a_line(
                    time.monotonic() - shown_at, changed=(now := _figures(status, campaign)) != last
                ):
                    self._console.print(view.line(status, campaign))
                    shown_at, last = time.monotonic(), now
                if not told and all(set(part.states) <= _FINAL for part in campaign.values()):
                    self._tell(app, campaign, ids)
                    told = True
                    if self._once:
                        return
                if not told and time.monotonic() > deadline:
                    problem = self._unfinished(app, campaign)
                    if self._once:
                        raise RunFailedError(problem)
                    self._console.print(problem, style="yellow")
                    told = True
        if self._once and not told:
            raise RunFailedError("stopped before everything was sent")

    def _time_limit(self, app: Application, campaign: dict[str, Progress]) -> float:
        """How long the campaign may take at its budgets, in seconds."""
        minutes = 0
        for key, part in campaign.items():
            budget = app.overview.mailbox(key).budget
            if budget is not None:
                minutes = max(minutes, math.ceil(part.total / budget.per_minute.limit))
        return minutes * 60 + _GRACE_SECONDS

    def _unfinished(self, app: Application, campaign: dict[str, Progress]) -> str:
        states = {key: part.states for key, part in campaign.items()}
        reasons = " ".join(f"{key}: {app.overview.explain(key)}" for key in campaign)
        return f"not everything was sent in time ({states}). {reasons}"

    def _tell(self, app: Application, campaign: dict[str, Progress], ids: dict[str, list[str]]) -> None:
        """Show the summary; raises when something is not as promised."""
        outcomes: dict[str, Outcome] | None = None
        stats: dict[str, object] = {}
        problems = []
        if self._system.sandbox is not None:
            seen = Counter(mail["rqmailId"] for mail in self._system.sandbox.accepted(fields=("rqmailId",)))
            outcomes = {
                key: Outcome(sum(seen[one] > 0 for one in mine), sum(seen[one] > 1 for one in mine))
                for key, mine in ids.items()
            }
            told = self._system.sandbox.stats()
            refused = sum(told["refused"].values()) + sum(told["nonDelivered"].values()) + told["overMinute"]
            stats = {
                "accepted": told["accepted"],
                "refused for limits": refused,
                "most in flight": told["maxInFlight"],
                "most in a minute": told["maxPerMinute"],
            }
            if refused:
                problems.append(f"the sandbox refused or delayed {refused} for its limits")
            problems += [
                f"{key}: the sandbox accepted {outcomes[key].accepted} of {part.total}, {outcomes[key].repeated} twice"
                for key, part in campaign.items()
                if outcomes[key] != Outcome(part.total, 0)
            ]
        problems += [f"{key}: ended as {part.states}" for key, part in campaign.items() if part.sent != part.total]
        self._console.print(view.summary(campaign, outcomes, stats))
        if problems:
            text = "; ".join(problems)
            if self._once:
                raise RunFailedError(text)
            self._console.print(text, style="red")
        elif not self._once:
            self._console.print("Everything arrived. The system stays up for a look; Ctrl-C stops it.")


def _figures(status: Status, campaign: dict[str, Progress]) -> list[tuple[int, int, int]]:
    return [
        (part.sent, status.mailboxes[key].waiting, status.mailboxes[key].deferred) for key, part in campaign.items()
    ]


def _is_worth_a_line(silent_seconds: float, *, changed: bool) -> bool:
    return silent_seconds >= (_QUIET_SECONDS if not changed else _BUSY_SECONDS)
