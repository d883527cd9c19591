"""A message that is handed in within the caller's own transaction has that transaction's fate."""

from __future__ import annotations

import psycopg
import psycopg.rows
import pytest

from rqmail.errors import InvalidInputError
from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Draft, Intake
from rqmail.models.attachments import attached_to
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, MessageStatus

FILE = Attachment("order.txt", b"one of each")
DRAFT = Draft(sender="mailbox:news", subject="Your order", to="a@example.org", text="Thank you.", attachments=[FILE])


@pytest.fixture
def intake(postgresql_database, clock):
    SystemMailbox.create(key="news", address="news@contoso.example", created_on=clock(), changed_on=clock())
    return Intake(clock, lambda: None)


@pytest.fixture
def connection(postgresql_database):
    with psycopg.connect(postgresql_database.url) as connection:
        yield connection


def test_a_message_waits_once_the_callers_transaction_is_committed(intake, connection):
    message_id = intake.submit(DRAFT, connection=connection)
    assert Message.select().count() == 0
    connection.commit()
    message = Message.get_by_id(message_id)
    assert message.status == MessageStatus.SCHEDULED
    assert [one.address for one in message.recipients] == ["a@example.org"]
    assert [one.name for one in attached_to([message_id])[message_id]] == ["order.txt"]


def test_a_message_never_was_after_a_rollback(intake, connection):
    intake.submit(DRAFT, connection=connection)
    connection.rollback()
    connection.commit()
    assert Message.select().count() == 0


def test_a_wrong_message_leaves_the_callers_transaction_as_it_is(intake, connection):
    with pytest.raises(InvalidInputError, match="to"):
        intake.submit(Draft(sender="mailbox:news", subject="s", to="nobody", text="t"), connection=connection)
    assert connection.execute("SELECT 1").fetchone() == (1,)


def test_a_connection_to_another_database_is_refused(intake, postgresql_database):
    elsewhere = psycopg.connect(postgresql_database.url, dbname="postgres")
    with elsewhere, pytest.raises(InvalidInputError, match="another database"):
        intake.submit(DRAFT, connection=elsewhere)


def test_a_connection_without_a_transaction_is_refused(intake, postgresql_database):
    with psycopg.connect(postgresql_database.url, autocommit=True) as connection:
        with pytest.raises(InvalidInputError, match="transaction"):
            intake.submit(DRAFT, connection=connection)
        assert Message.select().count() == 0
        with connection.transaction():
            intake.submit(DRAFT, connection=connection)
    assert Message.select().count() == 1


def test_rows_may_be_read_as_the_caller_likes(intake, connection):
    connection.row_factory = psycopg.rows.dict_row
    intake.submit(DRAFT, connection=connection)
    connection.commit()
    assert Message.select().count() == 1


def test_on_sqlite_a_connection_is_refused(sqlite_database, clock):
    SystemMailbox.create(key="news", address="news@contoso.example", created_on=clock(), changed_on=clock())
    with pytest.raises(InvalidInputError, match="PostgreSQL"):
        Intake(clock, lambda: None).submit(DRAFT, connection=object())
