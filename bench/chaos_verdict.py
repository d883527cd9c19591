"""What became of every message: our table against the provider's own record of what it accepted."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from rqmail.models.base import borrowed
from rqmail.models.message import FINAL, Message, MessageStatus

#: Our budget counts a call when it is granted, the record when it was accepted: later by a token, a connection, a busy
#: machine, and by six seconds where the sandbox dawdles. Calls granted a minute apart can be accepted that much closer.
JITTER_SECONDS = 8.0

_MINUTE = 60.0


@dataclass
class Verdict:
    """The four numbers that must be zero, and what explains one that is not."""

    lost: int = 0
    duplicated: int = 0
    over_budget: int = 0
    stuck: int = 0
    died: int = 0
    states: dict[str, int] = field(default_factory=dict)
    most_per_minute: int = 0
    most_per_day: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not (self.lost or self.duplicated or self.over_budget or self.stuck or self.died)

    def as_json(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}


def judge(
    submitted: set[str],
    accepted: list[dict[str, Any]],
    *,
    per_minute: int,
    per_day: int,
    died: list[str],
    may_read: bool,
) -> Verdict:
    """Compare the table with the record; ``accepted`` has ``rqmailId``, ``mailbox``, ``time``, ``to`` of each mail."""
    verdict = Verdict(died=len(died), examples=list(died))
    times = Counter(mail["rqmailId"] for mail in accepted)
    with borrowed():
        rows = {row.id: row for row in Message.select()}
    verdict.states = dict(sorted(Counter(row.status for row in rows.values()).items()))
    for message_id in sorted(submitted):
        problem = _problem(rows.get(message_id), times[message_id], may_read=may_read)
        if problem is not None:
            kind, text = problem
            setattr(verdict, kind, getattr(verdict, kind) + 1)
            verdict.examples.append(f"{message_id}: {text}")
    repeated = {message_id: count for message_id, count in times.items() if count > 1 or message_id not in submitted}
    verdict.duplicated = len(repeated)
    verdict.examples += [f"{message_id}: accepted {count} times" for message_id, count in repeated.items()]
    _judge_budgets(verdict, accepted, per_minute, per_day)
    return verdict


def _problem(row: Message | None, times: int, *, may_read: bool) -> tuple[str, str] | None:
    if row is None:
        return "lost", "its row is gone"
    match MessageStatus(row.status):
        case MessageStatus.SENT:
            return None if times else ("lost", "SENT, but never accepted")
        case MessageStatus.UNKNOWN if not may_read:
            # Nobody can look: that is the truth, as long as the row says why.
            asked = any(entry.get("outcome") in ("unknown", "worker-lost") for entry in row.history)
            return None if asked and row.last_error else ("lost", "UNKNOWN without evidence")
        case status if status in FINAL:
            return "lost", f"{status} ({row.last_error}), accepted {times} times"
        case status:
            return (
                "stuck",
                f"{status}, waiting for {row.waiting_for or '-'} until {row.scheduled_on} ({row.last_error})",
            )


def _judge_budgets(verdict: Verdict, accepted: list[dict[str, Any]], per_minute: int, per_day: int) -> None:
    by_mailbox: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for mail in accepted:
        at = datetime.fromisoformat(mail["time"]).timestamp()
        by_mailbox[mail["mailbox"]].append((at, len(mail["to"])))
    for mailbox, mails in by_mailbox.items():
        mails.sort()
        day = sum(count for _, count in mails)  # a run lasts minutes
        verdict.most_per_day = max(verdict.most_per_day, day)
        verdict.most_per_minute = max(verdict.most_per_minute, _most_within(mails, _MINUTE))
        over_minute = max(0, _most_within(mails, _MINUTE - JITTER_SECONDS) - per_minute)
        over_day = max(0, day - per_day)
        if over_minute or over_day:
            verdict.over_budget += over_minute + over_day
            verdict.examples.append(f"{mailbox}: {over_minute} over the minute, {over_day} over the day")


def _most_within(mails: list[tuple[float, int]], seconds: float) -> int:
    window: deque[float] = deque()
    most = 0
    for at, _ in mails:
        window.append(at)
        while window[0] <= at - seconds:
            window.popleft()
        most = max(most, len(window))
    return most
