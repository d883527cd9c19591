"""PostgreSQL as it stands in production: with parameters, behind a pooler, and with a standby that takes over."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import peewee
import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from rqmail.errors import InvalidInputError
from rqmail.models.base import AWAY_ERRORS, connect, db, pooled_connection, retry_while_away, transaction
from rqmail.models.message import Message
from support.clock import START
from support.databases import BoundDatabase, bound
from support.messages import new_message


@contextmanager
def only_reading(database: BoundDatabase) -> Iterator[psycopg.Connection]:
    """Let the database take no writes over connections made from now on, as a standby does."""
    name = conninfo_to_dict(database.url)["dbname"]
    with psycopg.connect(database.url, autocommit=True) as admin:
        admin.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
        try:
            yield admin
        finally:
            admin.execute("SET default_transaction_read_only = off")
            admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")


def test_a_write_that_met_a_standby_goes_to_the_new_primary(postgresql_database):
    tries = []

    def write() -> int:
        tries.append(1)
        with transaction():
            return len(Message.submit([new_message()], START))

    with only_reading(postgresql_database) as admin:
        db.close_all()
        name = conninfo_to_dict(postgresql_database.url)["dbname"]

        def promoted(_seconds: float) -> None:
            if len(tries) == 2:
                admin.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")

        assert retry_while_away(write, sleep=promoted) == 1
    assert len(tries) == 3
    assert Message.select().count() == 1


def test_of_several_hosts_the_primary_is_looked_for(postgresql_database):
    url = postgresql_database.url
    given = conninfo_to_dict(url)
    several = f"{url}{'&' if '?' in url else '?'}host=/nowhere,{given['host']}&port=1,{given.get('port', 5432)}"
    with bound("postgresql", several), pooled_connection():
        assert Message.select().count() == 0
    with only_reading(postgresql_database), bound("postgresql", several), pytest.raises(AWAY_ERRORS, match="read-only"):
        connection_of_a_standby()


def connection_of_a_standby() -> None:
    with pooled_connection():
        Message.select().count()


def test_what_the_address_says_goes_before_what_we_say(postgresql_database):
    url = postgresql_database.url
    more = "application_name=mailer&connect_timeout=7&options=-c%20statement_timeout%3D1234&sslmode=disable"
    with bound("postgresql", f"{url}{'&' if '?' in url else '?'}{more}"), pooled_connection():
        told = [db.execute_sql(f"SHOW {name}").fetchone()[0] for name in ("application_name", "statement_timeout")]
        assert told == ["mailer", "1234ms"]
        assert db.execute_sql("SHOW TimeZone").fetchone()[0] == "UTC"
        assert db.connection().info.get_parameters()["sslmode"] == "disable"
        assert db.connect_params.get("connect_timeout") is None


def test_a_parameter_that_libpq_does_not_know_is_named_without_the_password():
    with pytest.raises(InvalidInputError, match="colour") as refused:
        connect("postgresql://mail:hunter2@db/mail?colour=red")
    assert "hunter2" not in str(refused.value)


@pytest.fixture(scope="module")
def pooler(postgresql_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A pgbouncer in transaction mode with two connections, which any client may be given in turn."""
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("no pgbouncer here")
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        port = listening.getsockname()[1]
    given = conninfo_to_dict(postgresql_url)
    behind = " ".join(
        f"{name}={given[name]}" for name in ("host", "port", "dbname", "user", "password") if name in given
    )
    folder = tmp_path_factory.mktemp("pgbouncer")
    config = Path("/tmp") / f"rqmail-pgbouncer-{port}.ini"
    config.write_text(
        f"[databases]\nmail = {behind}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n"
        "auth_type = any\npool_mode = transaction\ndefault_pool_size = 2\n"
    )
    # It refuses to be root, and must reach the socket.
    owner = ["-u", pwd.getpwuid(Path(given["host"]).stat().st_uid).pw_name] if os.getuid() == 0 else []
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([program, *owner, str(config)], stdout=log, stderr=log)
    try:
        url = f"postgresql://{given.get('user', 'postgres')}@127.0.0.1:{port}/mail?connect_timeout=5"
        for _ in range(100):
            with suppress(psycopg.OperationalError), psycopg.connect(url):
                break
            process.poll()
        yield url
    finally:
        process.terminate()
        process.wait()
        config.unlink()


def test_nothing_of_ours_stays_on_a_connection_that_a_pooler_gives_to_others(postgresql_database, pooler):
    """Statements run often enough to be prepared, over connections that take turns on two of the server's."""
    with bound("postgresql", pooler):
        for number in range(24):
            with transaction():
                Message.submit([new_message(subject=f"No. {number}")], START)
            with pooled_connection():
                assert db.connection().prepare_threshold is None
                assert Message.select().count() == number + 1
                assert db.execute_sql("SELECT count(*) FROM pg_prepared_statements").fetchone()[0] == 0
            db.close_idle()


def test_statements_are_prepared_where_nothing_stands_between(postgresql_database):
    with pooled_connection():
        assert db.connection().prepare_threshold == 5


def test_another_error_of_the_database_is_no_standby(postgresql_database):
    with pooled_connection(), pytest.raises(peewee.ProgrammingError):
        db.execute_sql("SELECT nothing_of_that_name")
