"""What became of every message: our table against the provider's own record of what it accepted."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rqmail.models.base import pooled_connection
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
    ran_open: int = 0
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
    ran_open: Mapping[str, Sequence[float]],
    may_read: bool,
) -> Verdict:
    """Compare the table with the record; ``accepted`` has ``rqmailId``, ``mailbox``, ``time``, ``to`` of each mail.

    ``ran_open`` says when a mailbox's mail went out uncounted because Redis could not be asked.
    """
    verdict = Verdict(died=len(died), examples=list(died))
    times = Counter(mail["rqmailId"] for mail in accepted)
    with pooled_connection():
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
    verdict.ran_open = sum(len(times) for times in ran_open.values())
    _judge_budgets(verdict, accepted, ran_open, per_minute, per_day)
    return verdict


def read_what_ran_open(logs: Path) -> dict[str, list[float]]:
    """Find in the processes' logs when which mailbox's mail went out uncounted: each such mail has one warning."""
    found: defaultdict[str, list[float]] = defaultdict(list)
    for log in logs.glob("*.log"):
        for line in log.read_text(errors="replace").splitlines():
            if "mail.rateLimit.redisError" not in line or '"op"' in line:
                continue
            try:
                entry = json.loads(line)
            except ValueError:  # the process was killed while it wrote
                continue
            found[entry["mailboxKey"]].append(datetime.fromisoformat(entry["timestamp"]).timestamp())
    return dict(found)


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


def _judge_budgets(
    verdict: Verdict,
    accepted: list[dict[str, Any]],
    ran_open: Mapping[str, Sequence[float]],
    per_minute: int,
    per_day: int,
) -> None:
    by_mailbox: defaultdict[str, list[float]] = defaultdict(list)
    recipients: Counter[str] = Counter()
    for mail in accepted:
        by_mailbox[mail["mailbox"]].append(datetime.fromisoformat(mail["time"]).timestamp())
        recipients[mail["mailbox"]] += len(mail["to"])
    for mailbox, times in by_mailbox.items():
        uncounted = ran_open.get(mailbox, ())
        verdict.most_per_day = max(verdict.most_per_day, recipients[mailbox])  # a run lasts minutes
        verdict.most_per_minute = max(verdict.most_per_minute, _most_within(times, (), _MINUTE))
        over_minute = max(0, _most_within(times, uncounted, _MINUTE - JITTER_SECONDS) - per_minute)
        over_day = max(0, recipients[mailbox] - per_day)
        if over_minute or over_day:
            verdict.over_budget += over_minute + over_day
            verdict.examples.append(f"{mailbox}: {over_minute} over the minute, {over_day} over the day")


def _most_within(times: Sequence[float], uncounted: Sequence[float], seconds: float) -> int:
    """The most of ``times`` in any window of this length, less what went out uncounted in the same window."""
    times = sorted(times)
    most = 0
    for first, start in enumerate(times):
        inside = sum(1 for at in times[first:] if at < start + seconds)
        most = max(most, inside - sum(1 for at in uncounted if start - JITTER_SECONDS <= at < start + seconds))
    return most
