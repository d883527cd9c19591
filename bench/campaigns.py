"""What a campaign costs: its creation with every check against ``insert_many`` of the bare rows, and how large it is.

The reference has nothing to read and nothing to check: it writes the same columns of one row a person, in batches.
"""

from __future__ import annotations

import csv
import time
from pathlib import Path

from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import System, add_mailboxes, system
from rqmail.bootstrap import Application
from rqmail.campaigns.campaign import NewCampaign
from rqmail.clock import utc_now
from rqmail.models.audience import CampaignRecipient
from rqmail.models.base import db, transaction
from rqmail.models.campaigns import Campaign

NAME = "campaign"
_BATCH = 1_000
_HTML = "<p>Dear {{ name }}, your number is {{ number }}.</p>" + "<!-- forty kilobytes -->" * 1_700


def run(quick: bool) -> list[Row]:
    """Create and insert in turns; then see how long a start takes and how large the database is."""
    people, rounds = (1_000, 1) if quick else (100_000, 3)
    with system("sqlite") as parts:
        app = parts.application()
        add_mailboxes(3)
        file = _write(parts, people)
        compared = in_turns(rounds, lambda: _ours(app, file), lambda: _bare(people))
        _clean()
        _ours(app, file)
        began = time.perf_counter()
        app.campaigns.start("spring")
        app.feeder.feed()
        started = time.perf_counter() - began
        db.execute_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        size = Path(parts.environment["RQMAIL_DATABASE_URL"].removeprefix("sqlite:///")).stat().st_size / 1e6
    return [
        Row.judged(
            NAME, f"people a second, {people:,} of them, all checks", compared.ours, "per second",
            reference=compared.reference, ratio=compared.ratio, at_least=0.5,
            note=f"against insert_many of the bare rows, {rounds} rounds",
        ),
        Row.judged(NAME, f"start of {people:,} people, to the first line of mail", started, "s", at_most=20.0),
        Row.judged(NAME, f"database of {people:,} people with 40 KB of HTML", size, "MB", at_most=60.0),
    ]  # fmt: skip


def _ours(app: Application, file: Path) -> float:
    tell(f"{NAME}: creating one of {file.name}")
    _clean()
    began = time.perf_counter()
    with file.open("rb") as opened:
        made = app.campaigns.create(NewCampaign("spring", ["m0", "m1", "m2"], "Hi {{ name }}", html=_HTML), opened)
    if made.id is None:
        raise RuntimeError(f"nothing was stored: {made}")
    return made.recipients / (time.perf_counter() - began)


def _bare(number: int) -> float:
    tell(f"{NAME}: inserting {number} bare rows")
    _clean()
    now = utc_now()
    campaign = Campaign.create(
        name="bare", subject="s", fields="[]", language="en", created_by="bench", created_on=now, html=_HTML
    )
    began = time.perf_counter()
    for start in range(0, number, _BATCH):
        rows = [
            {
                "campaign": campaign.id, "number": n, "address": f"person{n}@example.org",
                "person": f"person{n}@example.org", "name": "", "data": f'["Name {n}","{n}"]', "state": "WAITING",
                "sender": "",
            }
            for n in range(start, min(start + _BATCH, number))
        ]  # fmt: skip
        with transaction():
            CampaignRecipient.insert_many(rows).execute()
    return number / (time.perf_counter() - began)


def _clean() -> None:
    with transaction():
        for table in ("campaign_recipient", "campaign_mailbox", "campaign", "message"):
            db.execute_sql(f"DELETE FROM {table}")


def _write(parts: System, number: int) -> Path:
    path = parts.folder / "list.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(["to", "name", "number"])
        rows.writerows((f"person{n}@example.org", f"Name {n}", n) for n in range(number))
    return path
