"""How connections are taken, given back and replaced, and how firmly SQLite keeps what it was told."""

from __future__ import annotations

import threading
import time

import peewee
import psycopg
import pytest
from playhouse.pool import MaxConnectionsExceeded

from rqmail.errors import InvalidInputError
from rqmail.models.base import connect, db, pooled_connection, retry_while_away, transaction
from rqmail.models.listing import Filter, find
from rqmail.models.message import Message
from support.clock import START
from support.messages import new_message, submitted


def test_a_sqlite_file_in_a_folder_that_does_not_exist_is_refused_in_words(tmp_path):
    with pytest.raises(InvalidInputError, match="a file in a folder that exists"):
        connect(f"sqlite:///{tmp_path}/missing/rqmail.db")


def test_sqlite_writes_ahead_waits_for_others_and_forgets_nothing_in_a_power_cut(sqlite_database):
    with pooled_connection():
        told = {name: db.execute_sql(f"PRAGMA {name}").fetchone()[0] for name in ("journal_mode", "synchronous")}
        told |= {name: db.execute_sql(f"PRAGMA {name}").fetchone()[0] for name in ("foreign_keys", "busy_timeout")}
    assert told == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


def test_a_transaction_that_fails_leaves_nothing_behind(database):
    def half() -> None:
        with transaction():
            Message.submit([new_message()], START)
            raise RuntimeError("half-way")

    with pytest.raises(RuntimeError, match="half-way"):
        half()
    assert Message.select().count() == 0


def test_more_threads_than_connections_take_turns(database):
    submitted()
    counted = []
    start = threading.Barrier(20)

    def count() -> None:
        start.wait(timeout=10)
        for _ in range(5):
            with pooled_connection():
                counted.append(Message.select().count())

    threads = [threading.Thread(target=count) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert counted == [1] * 100


def test_a_connection_the_server_has_closed_is_replaced_once_it_was_idle(postgresql_database, monkeypatch):
    with pooled_connection():
        pid = db.execute_sql("SELECT pg_backend_pid()").fetchone()[0]
    with psycopg.connect(postgresql_database.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    later = time.monotonic() + 2
    monkeypatch.setattr(time, "monotonic", lambda: later)
    with pooled_connection():
        assert db.execute_sql("SELECT pg_backend_pid()").fetchone()[0] != pid


def test_a_connection_that_broke_in_use_fails_that_once_and_never_again(postgresql_database):
    with pooled_connection():
        pid = db.execute_sql("SELECT pg_backend_pid()").fetchone()[0]
    with psycopg.connect(postgresql_database.url, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
    with pytest.raises((peewee.OperationalError, peewee.InterfaceError)), pooled_connection():
        db.execute_sql("SELECT 1")
    with pooled_connection():
        assert db.execute_sql("SELECT 1").fetchone() == (1,)


def test_what_must_be_written_is_written_once_the_database_is_back(database):
    pauses: list[float] = []
    calls = []

    def write() -> str:
        calls.append(1)
        if len(calls) < 4:
            raise peewee.OperationalError("away")
        return "written"

    assert retry_while_away(write, sleep=pauses.append) == "written"
    assert pauses == [0.05, 0.1, 0.2]


def test_patience_with_an_absent_database_ends_with_its_error(database):
    def write() -> None:
        raise peewee.OperationalError("away")

    with pytest.raises(peewee.OperationalError, match="away"):
        retry_while_away(write, at_most_seconds=0.0, sleep=lambda _: pytest.fail("it had no time to wait"))


def test_what_is_wrong_with_the_statement_itself_is_not_tried_again(database):
    tried = []

    def write() -> None:
        tried.append(1)
        raise peewee.IntegrityError("no such message")

    with pytest.raises(peewee.IntegrityError):
        retry_while_away(write, sleep=lambda _: pytest.fail("there is nothing to wait for"))
    assert tried == [1]


@pytest.mark.parametrize("searched", ["één", "ÉÉN", "Één uitnodiging"])
def test_letters_with_accents_are_found_in_either_case_on_both_databases(database, searched):
    [message_id] = submitted(new_message(subject="Één uitnodiging"))
    assert [message.id for message in find(Filter(subject=searched), limit=5)] == [message_id]


def test_a_connection_that_other_code_keeps_ends_the_wait_for_one_in_words(sqlite_database):
    """A query outside ``pooled_connection()`` takes a connection and never gives it back: on SQLite the only one."""
    connect(sqlite_database.url, wait_seconds=0.3)
    assert Message.select().count() == 0
    failed = []

    def lane() -> None:
        try:
            with pooled_connection():
                Message.select().count()
        except MaxConnectionsExceeded as error:
            failed.append(str(error))

    lanes = [threading.Thread(target=lane) for _ in range(8)]
    began = time.monotonic()
    for thread in lanes:
        thread.start()
    for thread in lanes:
        thread.join(timeout=20)
    assert time.monotonic() - began < 5, "all of them wait at the same time, not one after another"
    assert len(failed) == 8
    assert all("inside `with rqmail.models.base.pooled_connection():`" in words for words in failed)
    db.close()
    with pooled_connection():
        assert Message.select().count() == 0


def test_a_thread_that_holds_a_connection_for_long_ends_the_wait_of_the_others_too(database):
    limit = 1 if database.kind == "sqlite" else 4
    connect(database.url, max_connections=limit, wait_seconds=0.2)
    over = threading.Event()
    held = threading.Barrier(limit + 1, timeout=10)

    def hold() -> None:
        with pooled_connection():
            held.wait()
            over.wait(20)

    holders = [threading.Thread(target=hold) for _ in range(limit)]
    for thread in holders:
        thread.start()
    held.wait()
    try:
        with pytest.raises(MaxConnectionsExceeded, match="came free in time"), pooled_connection():
            pytest.fail("there was none")
    finally:
        over.set()
        for thread in holders:
            thread.join(timeout=20)
    with pooled_connection():
        assert Message.select().count() == 0
    db.obj.close_all()


def test_what_has_to_be_written_is_written_once_the_kept_connection_is_closed(sqlite_database):
    connect(sqlite_database.url, wait_seconds=0.1)
    Message.select().count()
    written = []
    writer = threading.Thread(target=lambda: written.append(retry_while_away(lambda: len(submitted()))))
    writer.start()
    time.sleep(0.3)
    db.close()
    writer.join(timeout=20)
    assert written == [1]
    db.obj.close_all()
