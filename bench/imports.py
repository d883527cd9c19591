"""What an import costs: a CSV file through every check, against peewee's ``insert_many`` of the bare rows.

The reference has nothing to read and nothing to check: it writes the same columns of the same tables, in batches, in
one transaction. Memory is that of a fresh process for a small and for a large file.
"""

from __future__ import annotations

import csv
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from uuid_utils import uuid7

from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import System, add_mailboxes, new_message, system
from rqmail.bootstrap import Application, build
from rqmail.clock import utc_now
from rqmail.models.base import transaction
from rqmail.models.message import Message, MessageContent, Recipient
from rqmail.settings import load_settings

NAME = "import"
_BATCH = 1_000


def run(quick: bool) -> list[Row]:
    """Import and insert in turns, then import two sizes of file in processes of their own."""
    small, large, rounds = (500, 2_000, 1) if quick else (10_000, 100_000, 3)
    with system("sqlite" if quick else "postgresql") as parts:
        app = parts.application()
        small_file, large_file = write_csv(parts, small), write_csv(parts, large)
        compared = in_turns(rounds, lambda: _ours(parts, app, large_file), lambda: _bare(parts, large))
        tell(f"{NAME}: memory for {small} and {large} rows")
        few, many = _peak(parts, small_file), _peak(parts, large_file)
    return [
        Row.judged(
            NAME, f"messages a second, {large:,} of them", compared.ours, "per second", reference=compared.reference,
            ratio=compared.ratio, at_least=0.5, note=f"against insert_many of the bare rows, {rounds} rounds",
        ),
        Row.judged(
            NAME, f"peak memory for {large:,} rows", many, "MB", reference=few, at_most=1.1,
            note=f"against {small:,} rows, each in a fresh process",
        ),
    ]  # fmt: skip


def _ours(parts: System, app: Application, file: Path) -> float:
    tell(f"{NAME}: importing {file.name}")
    parts.clean()
    add_mailboxes(1)
    began = time.perf_counter()
    with file.open("rb") as opened:
        report = app.imports.take(opened, "mailbox:m0")
    if report.stored != report.rows:
        raise RuntimeError(f"not all rows were stored: {report}")
    return report.stored / (time.perf_counter() - began)


def _bare(parts: System, number: int) -> float:
    tell(f"{NAME}: inserting {number} bare rows")
    parts.clean()
    began = time.perf_counter()
    with transaction():
        for start in range(0, number, _BATCH):
            messages, contents, recipients = zip(
                *(bare_rows(i) for i in range(start, min(start + _BATCH, number))), strict=True
            )
            Message.insert_many(messages).execute()
            MessageContent.insert_many(contents).execute()
            Recipient.insert_many(recipients).execute()
    return number / (time.perf_counter() - began)


def bare_rows(number: int) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Answer the rows of one message: of its own table, of its content, of its recipient."""
    new, now = new_message("mailbox:m0", number), utc_now()
    message = {
        "id": str(uuid7()), "sender": new.sender, "status": "SCHEDULED", "priority": 1, "subject": new.subject,
        "recipient_count": 1, "created_on": now, "requested_on": now, "scheduled_on": now, "expires_on": None,
        "attempts": 0, "deferrals": 0, "attempt_log": "",
    }  # fmt: skip
    content = {"message": message["id"], "text": None, "html": new.html}
    to = new.recipients[0]
    recipient = {"message": message["id"], "position": 0, "kind": "to", "address": to.address, "name": to.name}
    return message, content, recipient


def write_csv(parts: System, number: int) -> Path:
    """Write a file of so many messages, to be imported."""
    path = parts.folder / f"{number}.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["to", "subject", "html"])
        rows.writerows(_lines(number))
    return path


def _lines(number: int) -> Iterator[tuple[str, str, str | None]]:
    for i in range(number):
        new = new_message("mailbox:m0", i)
        to = new.recipients[0]
        yield f"{to.name} <{to.address}>", new.subject, new.html


def _peak(parts: System, file: Path) -> float:
    """Import ``file`` in a process of its own and answer the most memory it had, in megabytes."""
    parts.clean()
    add_mailboxes(1)
    child = subprocess.run(
        [sys.executable, "-m", "bench.imports", str(file)], stdout=subprocess.PIPE, check=True, timeout=600
    )
    return float(json.loads(child.stdout)["peak"])


def _import_and_tell(file: Path) -> None:
    app = build(load_settings())
    with file.open("rb") as opened:
        app.imports.take(opened, "mailbox:m0")
    print(json.dumps({"peak": _peak_megabytes()}))


def _peak_megabytes() -> float:
    """Read this process's own peak; ``ru_maxrss`` also remembers the process it was started from."""
    status = Path("/proc/self/status")
    if status.exists():
        peak = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(peak.split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 2**10)


if __name__ == "__main__":
    _import_and_tell(Path(sys.argv[1]))
