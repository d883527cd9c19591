"""The overview on a terminal: counts, one row a sender with its budgets as bars, and what is wrong."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rqmail.insight.standing import Budget, SenderStatus, Status, WindowView, level, told_state
from rqmail.terminal.tables import FittingTable, denied, moment, plain, table
from rqmail.text.counting import counted

_BAR_WIDTH = 6
_NAMES = 5
#: What a sender waits for beside its budget is told by its turn; for all others the state of the budget is told.
_BUDGETS = {
    "ok": "ok",
    "full-speed": "full speed",
    "near": "near its limit",
    "limited": "full",
    "unknown": "budget unknown",
}
_IN_BUDGET = {"idle", "later", "sending", "full-speed", "day-full"}
_LEVEL_STYLE = {"ok": "green", "near": "yellow", "full": "yellow"}
_STATUS_STYLE = {"SENT": "green", "ERROR": "red", "UNKNOWN": "magenta"}


def board(status: Status) -> RenderableType:
    """Draw the whole overview."""
    return Group(*_parts(status))


def _parts(status: Status) -> Iterator[RenderableType]:
    yield from causes(status)
    yield counts(status.messages)
    yield machinery(status)
    yield Text("times     UTC")
    yield Text()
    yield senders(status)


def causes(status: Status) -> Iterator[Text]:
    """Write what a person should know, one line a cause, worst first; of many senders the ones with most mail."""
    for cause in status.causes:
        names = ", ".join(cause.senders[:_NAMES]) + ("" if len(cause.senders) <= _NAMES else ", …")
        told = plain(f"{cause.text} {names}" if len(cause.senders) > 1 else cause.text)
        yield Text(f"{cause.level}: {told}", style="red" if cause.level == "error" else "yellow")


def counts(messages: dict[str, int]) -> Text:
    """Write how many messages are where, leaving out the places where there are none."""
    line = Text("messages  ")
    shown = [(name, number) for name, number in messages.items() if number]
    for name, number in shown or [("none", 0)]:
        line.append(f"{name.lower()} ", style=_STATUS_STYLE.get(name, "")).append(f"{number:,}  ", style="bold")
    return line


def machinery(status: Status) -> Text:
    """Write whether what carries the mail is alive."""
    if status.redis != "ok":
        return Text(f"redis     {status.redis}", style="red")
    queues = ", ".join(f"{name} {depth}" for name, depth in status.queues.items())
    tick = moment(status.last_tick_on, status.now) or "never"
    return Text(
        f"running   {counted(len(status.workers), 'worker', 'workers')}, last dispatch {tick}, jobs in queues: {queues}"
    )


def senders(status: Status) -> FittingTable:
    """Draw one row for each mailbox, and for each tenant that has mail or a budget."""
    shown = table(
        "sender", "state", "sent", "waiting", "deferred", "denied/h", "minute", "24 h", "in flight", "done about",
        right=("sent", "waiting", "deferred", "denied/h"), folds=("state",),
        drops=("denied/h", "in flight", "deferred", "sent", "done about", "waiting"),
    )  # fmt: skip
    rows = [(f"mailbox:{key}", one) for key, one in status.mailboxes.items()]
    rows += [(f"tenant:{key}", one) for key, one in status.tenants.items()]
    if any(status.default.messages.values()):
        rows.append(("default", status.default))
    for name, one in rows:
        shown.add_row(name, *_cells(one, status))
    return shown


def _cells(one: SenderStatus, status: Status) -> Iterator[RenderableType]:
    yield state(one, status)
    yield f"{one.messages['SENT']:,}"
    yield f"{one.waiting:,}"
    yield f"{one.deferred:,}"
    yield denied(one.denied_last_hour)
    if one.budget is None:
        yield from ("", "", "")
    else:
        yield bar(one.budget.per_minute, one.budget)
        yield bar(one.budget.recipients_per_day, one.budget)
        in_flight = "?" if one.budget.in_flight is None else one.budget.in_flight
        yield f"{in_flight}/{one.budget.in_flight_limit}"
    yield moment(one.done_on, status.now)


def state(one: SenderStatus, status: Status) -> Text:
    """Write whose turn it is: red is what needs a person, yellow what ends by itself, green what goes out."""
    if one.turn.code not in _IN_BUDGET:
        return Text(plain(one.turn.text), style="red" if one.turn.needs_person else "yellow")
    told = told_state(one)
    text = _BUDGETS[told]
    if told == "limited" and one.budget is not None:
        text += f" until {moment(one.budget.next_free_on, status.now)}"
    return Text(text, style="green" if told in {"ok", "full-speed"} else "yellow")


def bar(window: WindowView, budget: Budget) -> RenderableType:
    """Draw how much of a limit is used, as far as that can be told."""
    if window.used is None:
        return f"?/{window.limit:,}"
    row = Table.grid(padding=(0, 1))
    style = _LEVEL_STYLE[level(window, budget)]
    drawn = ProgressBar(total=window.limit, completed=min(window.used, window.limit), width=_BAR_WIDTH)
    drawn.complete_style = drawn.finished_style = style
    row.add_row(drawn, f"{window.used:,}/{window.limit:,}")
    return row
