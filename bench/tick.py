"""What a tick costs when all budgets are used up: a million rows waiting against ten thousand.

In both a tenth of them is due, on the same hundred senders. A tick's cost must follow what it claims, not the backlog.
"""

from __future__ import annotations

import statistics
import time
from datetime import timedelta

from bench.moved import MovedClock
from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import System, add_mailboxes, system
from rqmail.bootstrap import Application
from rqmail.clock import Clock
from rqmail.models.base import db, is_postgresql, pooled_connection, to_column
from rqmail.models.migrate import migrate
from rqmail.ratelimit.limiter import Reservation
from rqmail.ratelimit.limits import RateLimits

NAME = "tick"
SENDERS = 100


def run(quick: bool) -> list[Row]:
    """Measure on each database."""
    rows = []
    for database in ("sqlite",) if quick else ("sqlite", "postgresql"):
        with system(database) as parts:
            rows += _on(parts, database, quick)
    return rows


def _on(parts: System, database: str, quick: bool) -> list[Row]:
    few, many = (1_000, 20_000) if quick else (10_000, 1_000_000)
    clock = MovedClock()
    urls = {size: _filled(parts, size, clock) for size in (few, many)}
    rows = []
    for used_up in ("minute", "day"):
        tell(f"{NAME}: {database}, {many} rows waiting against {few}, the {used_up}'s budget used up")
        parts.redis.flushall()
        _use_up(parts.application(clock, database_url=urls[few]), used_up)

        def spent(size: int) -> float:
            return _median_tick(parts.application(clock, database_url=urls[size]))

        compared = in_turns(3 if quick else 7, lambda: spent(many), lambda: spent(few))
        rows.append(
            Row.judged(
                NAME, f"one tick, {database}, {many:,} rows waiting, {used_up}'s budget used up",
                compared.ours * 1000, "ms", reference=compared.reference * 1000, ratio=compared.ratio,
                at_most=1.5, note=f"{many // 10:,} due on {SENDERS} senders; reference: the same with {few:,} rows",
            )
        )  # fmt: skip
    return rows


def _median_tick(app: Application) -> float:
    times = []
    for number in range(13):
        began = time.perf_counter()
        report = app.dispatcher.tick()
        if number > 2:  # the first ones connect and fill caches
            times.append(time.perf_counter() - began)
        if report.skipped or report.claimed or report.senders_due != SENDERS:
            raise RuntimeError(f"a tick with nothing to claim did {report}")
    return statistics.median(times)


def _use_up(app: Application, what: str) -> None:
    """Leave the mailboxes nothing for this minute, or nothing for this day but calls."""
    limits = RateLimits()
    for number in range(SENDERS):
        times, recipients = (limits.per_minute, 1) if what == "minute" else (1, limits.recipients_per_day)
        for _ in range(times):
            taken = app.limiter.check_and_reserve(f"m{number}@contoso.example", recipients, limits)
            assert isinstance(taken, Reservation), taken
            app.limiter.settle(taken)


def _filled(parts: System, size: int, clock: Clock) -> str:
    """Make a database with ``size`` rows waiting, a tenth of them due, and answer its address."""
    tell(f"{NAME}: {parts.database}, inserting {size:,} rows")
    url = _another(parts, f"waiting{size}")
    parts.application(database_url=url)
    migrate()
    add_mailboxes(SENDERS)
    due, later = to_column(clock() - timedelta(hours=1)), to_column(clock() + timedelta(days=1))
    numbers = (
        f"generate_series(1, {size}) AS n(i)"
        if is_postgresql()
        else f"(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {size}) SELECT i FROM n)"
    )
    moment = f"CASE WHEN i / 10 * 10 = i THEN {db.param} ELSE {db.param} END"
    if is_postgresql():
        moment = f"({moment})::timestamptz"
    statement = (
        "INSERT INTO message (id, sender, status, priority, subject, recipient_count, created_on, requested_on,"
        " scheduled_on, attempts, deferrals, attempt_log)"
        f" SELECT 'id-' || i, 'mailbox:m' || (i / 10 - i / {10 * SENDERS} * {SENDERS}), 'SCHEDULED', 1, 'Nieuws', 1,"
        f" {db.param}, {db.param}, {moment}, 0, 0, '' FROM {numbers}"
    )
    with pooled_connection():
        db.execute_sql(statement, (due, due, due, later))
        if is_postgresql():
            db.execute_sql("VACUUM ANALYZE message")
    return url


def _another(parts: System, name: str) -> str:
    """Answer the address of one more, empty database."""
    if parts.database == "sqlite":
        return f"sqlite:///{parts.folder / name}.db"
    parts.application()
    with pooled_connection():
        db.execute_sql(f"CREATE DATABASE {name}")
    before, mark, options = parts.environment["RQMAIL_DATABASE_URL"].partition("?")
    return f"{before.rsplit('/', 1)[0]}/{name}{mark}{options}"
