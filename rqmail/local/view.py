"""What is seen of a local run: where to look, how far it is, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rqmail.insight.standing import Status
from rqmail.terminal.board import bar, board, causes
from rqmail.terminal.tables import FittingTable, moment, table

_BAR_WIDTH = 24


@dataclass(slots=True)
class Progress:
    """One mailbox's part of this run's campaign; ``held_back`` is the most that ever waited for budget at once."""

    total: int
    states: dict[str, int] = field(default_factory=dict)
    held_back: int = 0

    @property
    def sent(self) -> int:
        """How many of its messages were accepted."""
        return self.states.get("SENT", 0)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the sandbox saw of one mailbox's messages: accepted at all, and accepted more than once."""

    accepted: int
    repeated: int


def addresses(places: Mapping[str, str]) -> Table:
    """List where everything is."""
    grid = Table.grid(padding=(0, 2))
    for name, place in places.items():
        grid.add_row(Text(name, style="dim"), Text(place))
    return grid


def live(status: Status, campaign: Mapping[str, Progress], places: Mapping[str, str]) -> RenderableType:
    """Draw the present moment; without a campaign, the overview."""
    shown = progress(status, campaign) if campaign else board(status)
    problems = causes(status) if campaign else ()
    return Group(addresses(places), Text(), shown, *problems, Text("Ctrl-C stops everything.", style="dim"))


def progress(status: Status, campaign: Mapping[str, Progress]) -> FittingTable:
    """Draw one row a mailbox: how far its campaign is, what waits, what is left of the minute."""
    shown = table(
        "mailbox",
        "campaign",
        "sent",
        "waiting",
        "deferred",
        "minute",
        "done about",
        right=("waiting", "deferred"),
        drops=("deferred", "campaign", "done about"),
    )
    for key, part in campaign.items():
        one = status.mailboxes[key]
        done = ProgressBar(total=part.total, completed=part.sent, width=_BAR_WIDTH, finished_style="green")
        minute = bar(one.budget.per_minute, one.budget) if one.budget is not None else ""
        shown.add_row(
            key,
            done,
            f"{part.sent}/{part.total}",
            str(one.waiting),
            str(one.deferred),
            minute,
            moment(one.done_on, status.now),
        )
    return shown


def line(status: Status, campaign: Mapping[str, Progress]) -> str:
    """Write the present moment in a line, for logs."""
    parts = []
    for key, part in campaign.items():
        one = status.mailboxes[key]
        about = f", done about {moment(one.done_on, status.now)}" if one.done_on is not None else ""
        parts.append(f"{key}: {part.sent}/{part.total} sent, {one.waiting} waiting ({one.deferred} deferred){about}")
    return f"{moment(status.now, status.now)}  " + "   ".join(parts)


def summary(
    campaign: Mapping[str, Progress], outcomes: Mapping[str, Outcome] | None, stats: Mapping[str, object]
) -> RenderableType:
    """Draw how it ended; ``outcomes`` is what the sandbox says, where there was one."""
    numbers = ("handed in", "sent", "most held back", "accepted", "twice")
    shown = table("mailbox", *numbers, right=numbers, drops=("handed in", "most held back"))
    for key, part in campaign.items():
        seen = outcomes.get(key) if outcomes is not None else None
        accepted, repeated = ("", "") if seen is None else (str(seen.accepted), str(seen.repeated))
        shown.add_row(key, str(part.total), str(part.sent), str(part.held_back), accepted, repeated)
    told = "The sandbox: " + ", ".join(f"{name} {value}" for name, value in stats.items()) if stats else ""
    return Group(shown, Text(told))
