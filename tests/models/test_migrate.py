"""The tables and how they come about."""

from __future__ import annotations

from rqmail.models import migrate as migrations
from rqmail.models.base import db
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.migrate import migrate, pending
from rqmail.ratelimit.limits import RateLimits, resolve_limits
from support.clock import START
from support.databases import bound
from support.statements import plan


def test_migrating_again_does_nothing(database):
    assert pending() == []
    assert migrate() == []


def test_sqlite_knows_which_index_to_use_on_the_very_connection_that_made_the_tables(tmp_path):
    with bound("sqlite", f"sqlite:///{tmp_path}/new.db"):
        migrate()
        for sql in ("SELECT id FROM message WHERE status = 'SCHEDULED' ORDER BY sender LIMIT 1",):
            assert "message_due" in "\n".join(plan(sql, ()))


def test_limits_of_zero_and_below_can_be_carried_over_and_the_defaults_hold_in_their_place(database):
    now = START.isoformat()
    for key, limit in (("zero", 0), ("below", -5)):
        db.execute_sql(
            "INSERT INTO system_mailbox"
            " (key, address, rate_limit_per_minute, rate_limit_recipients_per_day, created_on, changed_on)"
            f" VALUES ('{key}', '{key}@x.nl', {limit}, {limit}, '{now}', '{now}')"
        )
        row = SystemMailbox.get(SystemMailbox.key == key)
        assert (row.rate_limit_per_minute, row.rate_limit_recipients_per_day) == (limit, limit)
        assert resolve_limits(row.rate_limit_per_minute, row.rate_limit_recipients_per_day) == RateLimits()


def test_a_filled_table_keeps_its_rows_when_its_checks_of_limits_are_taken_away(tmp_path):
    with bound("sqlite", f"sqlite:///{tmp_path}/old.db"):
        runner = migrations._runner()
        runner.up("0013_attachments")
        now = START.isoformat()
        db.execute_sql(
            "INSERT INTO system_mailbox (key, address, rate_limit_per_minute, pacing, created_on, changed_on)"
            f" VALUES ('news', 'news@x.nl', 7, 'even', '{now}', '{now}')"
        )
        before = db.execute_sql("SELECT * FROM system_mailbox").fetchall()
        indexes = (
            "SELECT name, sql FROM sqlite_master WHERE type = 'index' AND tbl_name = 'system_mailbox' ORDER BY name"
        )
        had = db.execute_sql(indexes).fetchall()
        runner.up("0014_limits_below_one")
        assert db.execute_sql("SELECT * FROM system_mailbox").fetchall() == before
        assert db.execute_sql(indexes).fetchall() == had
        assert migrate()[0] == "0015_paused_by"
        assert SystemMailbox.get().pacing == "even"


def test_no_step_takes_away_or_demands_what_the_version_before_does_not_know(tmp_path):
    """A step expands: columns stay, and a new one in a table there is may be left out by who inserts."""
    with bound("sqlite", f"sqlite:///{tmp_path}/steps.db"):
        runner = migrations._runner()
        before: dict[str, dict[str, bool]] = {}
        for step in pending():
            runner.up(step)
            tables = [name for (name,) in db.execute_sql("SELECT name FROM sqlite_master WHERE type = 'table'")]
            after = {
                table: {
                    name: bool(notnull) and default is None
                    for _, name, _, notnull, default, _ in db.execute_sql(f"PRAGMA table_info({table})").fetchall()
                }
                for table in tables
            }
            for table, columns in before.items():
                assert columns.keys() <= after.get(table, {}).keys(), f"{step} takes columns of {table} away"
                demanded = {name for name, needed in after[table].items() if needed and name not in columns}
                assert not demanded, f"{step} demands {demanded} of {table}"
            before = after
        assert pending() == []
