"""The newest tables come about on a database that is full of yesterday's rows, and every row is as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest

from rqmail.administration.messages import count_by_status, show
from rqmail.models import migrate as migrations
from rqmail.models.access import ApiToken, AuditEntry
from rqmail.models.base import db, is_postgresql
from rqmail.models.listing import Filter, find
from rqmail.models.mailbox import SystemMailbox, TenantMailSetting
from rqmail.models.message import Message, MessageStatus
from rqmail.models.migrate import migrate, pending
from rqmail.ratelimit.limits import RateLimits, resolve_limits
from support.clock import START
from support.databases import bound

#: The last step before anything was changed that had rows: messages, senders, tokens, audit.
FIRST = "0002_access"
STATUSES = [status.value for status in MessageStatus]
NOW = START.isoformat()
MESSAGES = 80


@pytest.fixture(params=["sqlite", "postgresql"])
def old_database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A database with the tables of long ago, filled; answers what makes the steps since."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path}/old.db"
    else:
        newest = request.getfixturevalue("postgresql_url")
        address, _, options = newest.partition("?")
        server, _, name = address.rpartition("/")
        with psycopg.connect(newest, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE IF EXISTS {name}_old WITH (FORCE)")
            connection.execute(f"CREATE DATABASE {name}_old")
        url = f"{server}/{name}_old?{options}"
    with bound(request.param, url):
        runner = migrations._runner()
        runner.up(FIRST)
        with db.atomic():
            fill()
        yield runner


def insert(table: str, **values: object) -> None:
    columns, marks = ", ".join(values), ", ".join([db.param] * len(values))
    db.execute_sql(f"INSERT INTO {table} ({columns}) VALUES ({marks})", tuple(values.values()))


def fill() -> None:
    for key, per_minute, per_day, paused in (
        ("news", 7, 1000, None),
        ("default-limits", None, None, None),
        ("paused", 1, None, (START + timedelta(days=900)).isoformat()),
    ):
        insert(
            "system_mailbox",
            key=key, address=f"{key}@Contoso.example", rate_limit_per_minute=per_minute,
            rate_limit_recipients_per_day=per_day, paused_until=paused, pause_reason=paused and "Té veel",
            created_on=NOW, changed_on=NOW,
        )  # fmt: skip
    insert(
        "tenant_mail_setting",
        key="acme", provider="microsoft-graph", address="post@acme.example", graph_tenant_id="t", graph_client_id="c",
        graph_client_secret_encrypted="sealed", created_on=NOW, changed_on=NOW,
    )  # fmt: skip
    insert(
        "tenant_mail_setting",
        key="grid", provider="sendgrid", sendgrid_from="g@x.nl", created_on=NOW, changed_on=NOW,
    )  # fmt: skip
    insert("api_token", name="erp", digest="d" * 64, scopes="read send", created_on=NOW, created_by="admin")
    insert("idempotency_key", caller="erp", key="k", fingerprint="f" * 64, message_ids='["m000"]', created_on=NOW)
    for number, (who, action) in enumerate((("jan", "pause"), ("sanne", "pause"), ("jan", "set"))):
        insert(
            "audit_entry",
            id=f"a{number}", at=NOW, who=who, action=f"mailbox.{action}", subject="mailbox:paused",
            state_before=None, state_after='{"key": "paused"}',
        )  # fmt: skip
    for number in range(MESSAGES):
        status = STATUSES[number % len(STATUSES)]
        insert(
            "message",
            id=f"m{number:03}", sender=f"mailbox:{('news', 'paused')[number % 2]}", status=status, priority=number % 3,
            subject=f"Één {number}", recipient_count=2, created_on=NOW, requested_on=NOW, scheduled_on=NOW,
            claim="c" if status in {"SENDING", "SENT"} else None, mailbox_key="news@contoso.example",
            sent_on=NOW if status == "SENT" else None, attempts=number % 4, deferrals=0,
            waiting_for=("minute", None)[number % 2] if status == "SCHEDULED" else None,
            last_error="Nee" if status == "ERROR" else None, attempt_log='{"at": "2026-03-10T09:30:20Z"}\n',
        )  # fmt: skip
        insert("message_content", message_id=f"m{number:03}", text="dag", html=None)
        for position, kind in enumerate(("to", "cc")):
            insert(
                "recipient",
                message_id=f"m{number:03}", position=position, kind=kind, address=f"Reader{position}@x.nl", name="",
            )  # fmt: skip


@pytest.fixture
def everything(old_database: Any) -> Callable[[], dict[str, list[Any]]]:
    """Answers every row of the tables there were at first, in the columns there were at first."""
    columns = {
        table: ", ".join(column.name for column in db.get_columns(table))
        for table in db.get_tables()
        if table != "schema_migration" and not table.startswith("sqlite_")
    }

    def read() -> dict[str, list[Any]]:
        return {
            table: sorted(map(repr, db.execute_sql(f"SELECT {names} FROM {table}").fetchall()))
            for table, names in columns.items()
        }

    return read


def test_after_every_step_every_row_is_as_it_was(old_database, everything):
    before = everything()
    assert sum(map(len, before.values())) == 4 * MESSAGES + 10
    for step in pending():
        old_database.up(step)
        assert everything() == before, step
    assert pending() == []


def test_rows_of_long_ago_are_read_found_and_counted_by_what_reads_the_newest_tables(old_database):
    migrate()
    limits = {
        row.key: resolve_limits(row.rate_limit_per_minute, row.rate_limit_recipients_per_day)
        for row in SystemMailbox.select()
    }
    assert limits == {"news": RateLimits(7, 1000), "default-limits": RateLimits(), "paused": RateLimits(1)}
    paused = SystemMailbox.get(key="paused")
    assert (paused.paused_by, paused.pause_reason, paused.sent_items) == ("sanne", "Té veel", None)
    providers = {row.key: row.provider for row in TenantMailSetting.select()}
    assert providers == {"acme": "microsoft-graph", "grid": "sendgrid"}
    assert ApiToken.get().mailboxes is None
    assert AuditEntry.select().count() == 3
    assert count_by_status(Filter()) == dict.fromkeys(map(MessageStatus, STATUSES), MESSAGES // len(STATUSES))
    assert len(find(Filter(recipient="reader1@X.nl"), limit=1000)) == MESSAGES
    view = show("m005")
    assert (view.subject, view.text, len(view.recipients)) == ("Één 5", "dag", 2)
    assert Message.cancel(["m000"], START, "sanne") == ["m000"]
    SystemMailbox.update(rate_limit_per_minute=0).execute()  # what the source's tables allow


def test_a_step_that_breaks_off_in_the_middle_changed_nothing_and_is_made_again(old_database, everything, monkeypatch):
    old_database.up("0013_attachments")
    before = everything()
    run = db.obj.execute_sql
    last = "DROP CONSTRAINT IF EXISTS system_mailbox_rate_limit_recipients" if is_postgresql() else "RENAME TO"

    def breaks_off(sql: str, *args: Any, **kwargs: Any) -> Any:
        if last in sql:
            raise KeyboardInterrupt
        return run(sql, *args, **kwargs)

    with monkeypatch.context() as patched:
        patched.setattr(db.obj, "execute_sql", breaks_off)
        with pytest.raises(KeyboardInterrupt):
            old_database.up("0014_limits_below_one")
    assert pending()[0] == "0014_limits_below_one"
    assert everything() == before
    migrate()
    assert everything() == before
