"""The database: which one, how its pooled connections are used, and how moments are stored."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

import peewee
from playhouse.pool import MaxConnectionsExceeded, PooledDatabase, PooledPostgresqlDatabase, PooledSqliteDatabase

from rqmail.errors import InvalidInputError

#: The database every model is bound to; :func:`connect` points it at a real one.
db = peewee.DatabaseProxy()

#: Connections one process keeps at most. SQLite has one writer anyway: more would only wait on each other's locks.
MAX_CONNECTIONS = {"sqlite": 1, "postgresql": 4}

#: A pooled PostgreSQL connection used within this many seconds is trusted without asking the server again.
_TRUSTED_SECONDS = 1.0

#: A statement is prepared after this many times, as psycopg does.
_PREPARED_AFTER = 5

#: What PostgreSQL calls a write where only reads are allowed.
_READ_ONLY = "25006"

#: What a statement raises while the database cannot be reached or has no connection free.
AWAY_ERRORS = (peewee.OperationalError, peewee.InterfaceError, MaxConnectionsExceeded)

#: What a statement raises that writes a row under a key that is taken.
TAKEN_ERRORS = (peewee.IntegrityError,)

#: How long a thread waits for one of them to come free.
CONNECTION_WAIT_SECONDS = 10.0

#: How often it looks for one that was taken outside :func:`pooled_connection`, where nobody says when it is given back.
_LOOK_AGAIN_SECONDS = 0.05

_T = TypeVar("_T")

_ALL_IN_USE = (
    "no database connection of this process came free in time. Code that queries rqmail's tables from Python must do so"
    " inside `with rqmail.models.base.pooled_connection():`, or close its connection afterwards: one that is kept open"
    ' cannot be used by anybody else (docs/admin.md, "The tables from Python")'
)

_slots = threading.BoundedSemaphore(1)
_wait_seconds = CONNECTION_WAIT_SECONDS
_owner = os.getpid()


class _SqlitePool(PooledSqliteDatabase):  # type: ignore[misc]
    """SQLite connections shared by threads, one at a time each."""


class StandbyError(peewee.OperationalError):
    """The server that was reached only reads: it is a standby, or was primary before a failover."""


class _PostgresAdapter(peewee.Psycopg3Adapter):
    """Connects to a server, or to a pooler before it that gives every transaction another of its connections."""

    _takes_options = True

    def connect(self, db: peewee.Database, **params: Any) -> Any:
        """Connect; statements are prepared only where nothing stands between us and the server."""
        from psycopg import OperationalError  # noqa: PLC0415 - SQLite alone needs no psycopg

        try:
            conn = super().connect(db, **(params if self._takes_options else _without_options(params)))  # type: ignore[no-untyped-call]
        except OperationalError as error:
            if not self._takes_options or "unsupported startup parameter" not in str(error):
                raise
            conn = super().connect(db, **_without_options(params))  # type: ignore[no-untyped-call]
            self._takes_options = False
        conn.prepare_threshold = None
        conn.autocommit = True
        # A pooler answers for connections that it made before: it cannot name the process that will serve the next.
        if conn.execute("SELECT pg_backend_pid()").fetchone()[0] == conn.info.backend_pid:
            conn.prepare_threshold = _PREPARED_AFTER
        return conn


def _without_options(params: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in params.items() if name != "options"}


class _PostgresPool(PooledPostgresqlDatabase):  # type: ignore[misc]
    """PostgreSQL connections that are asked for life only after they have been idle for a while."""

    psycopg3_adapter = _PostgresAdapter

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._used_at: dict[int, float] = {}
        self._only_read: set[int] = set()
        super().__init__(*args, **kwargs)

    def execute_sql(self, sql: str, params: Any = None) -> Any:
        """Run a statement; a server that only reads is not asked again over the connections there are."""
        try:
            return super().execute_sql(sql, params)
        except peewee.InternalError as error:
            if getattr(getattr(error, "orig", None), "sqlstate", None) != _READ_ONLY:
                raise
            self._only_read.add(id(self.connection()))
            self.close_idle()
            raise StandbyError(str(error)) from error

    def _is_closed(self, conn: Any) -> bool:
        fresh = time.monotonic() - self._used_at.get(id(conn), 0.0) < _TRUSTED_SECONDS
        return bool(conn.closed) if fresh else bool(super()._is_closed(conn))

    def _can_reuse(self, conn: Any) -> bool:
        if id(conn) in self._only_read:
            self._only_read.discard(id(conn))
            conn.close()
            return False
        self._used_at[id(conn)] = time.monotonic()
        return bool(super()._can_reuse(conn))


def connect(
    url: str, *, max_connections: int | None = None, wait_seconds: float = CONNECTION_WAIT_SECONDS
) -> peewee.Database:
    """Point the models at ``url`` (``sqlite:///FILE`` or ``postgresql://…``); no connection is made yet.

    With all ``max_connections`` in use, a thread waits ``wait_seconds`` for one, then raises what says so. SQLite runs
    in WAL mode with full durability: a power cut must not forget that a send was begun.
    """
    global _owner, _slots, _wait_seconds  # noqa: PLW0603 - the pool and what belongs to it change together, here only
    kind = "sqlite" if url.startswith("sqlite:///") else "postgresql"
    limit = max_connections or MAX_CONNECTIONS[kind]
    database: peewee.Database
    if kind == "sqlite":
        path = Path(url.removeprefix("sqlite:///")).expanduser()
        if not path.absolute().parent.is_dir():
            raise InvalidInputError("RQMAIL_DATABASE_URL", url, "a file in a folder that exists")
        database = _SqlitePool(
            str(path),
            max_connections=limit,
            lock_type="IMMEDIATE",
            check_same_thread=False,
            returning_clause=True,
            field_types={"TIMESTAMPTZ": "TEXT"},
            pragmas={"journal_mode": "wal", "synchronous": "full", "foreign_keys": 1, "busy_timeout": 10_000},
        )
        database.register_function(_lower, "LOWER", 1)  # SQLite's own knows the letters of ASCII only
    else:
        database = _PostgresPool(
            "postgresql://" + url.split("://", 1)[1],
            max_connections=limit,
            prefer_psycopg3=True,
            **_beside(url),
        )
    _close_former()
    db.initialize(database)
    _owner = os.getpid()
    _slots = threading.BoundedSemaphore(limit)
    _wait_seconds = wait_seconds
    return database


def _beside(url: str) -> dict[str, Any]:
    """Answer what a connection is made with beside what the address says; that goes first."""
    from psycopg import ProgrammingError  # noqa: PLC0415 - SQLite alone needs no psycopg
    from psycopg.conninfo import conninfo_to_dict  # noqa: PLC0415

    try:
        given = conninfo_to_dict("postgresql://" + url.split("://", 1)[1])
    except ProgrammingError as error:
        raise InvalidInputError("RQMAIL_DATABASE_URL", "***", f"what libpq can read ({error})".strip()) from None
    beside: dict[str, Any] = {
        "options": f"-c TimeZone=UTC -c statement_timeout=60000 {given.get('options', '')}".strip()
    }
    if "connect_timeout" not in given:
        beside["connect_timeout"] = 5
    if "," in f"{given.get('host', '')}{given.get('hostaddr', '')}" and "target_session_attrs" not in given:
        beside["target_session_attrs"] = "read-write"  # the primary, whichever of them it is
    return beside


def _close_former() -> None:
    """Close the idle connections of the pool that is left; after a fork they are the parent's, and stay open."""
    if isinstance(db.obj, PooledDatabase) and _owner == os.getpid():
        db.obj.close_idle()


@contextmanager
def pooled_connection() -> Iterator[None]:
    """Use a pooled connection for the statements inside, and give it back; nested use shares the outer one.

    Raises ``MaxConnectionsExceeded``, in words, when none comes free in time.
    """
    if not db.is_closed():
        yield
        return
    deadline = time.monotonic() + _wait_seconds
    slots = _slots
    if not slots.acquire(timeout=_wait_seconds):
        raise MaxConnectionsExceeded(_ALL_IN_USE)
    try:
        _take_connection(deadline)
        try:
            yield
        finally:
            db.close()
    finally:
        slots.release()


def _take_connection(deadline: float) -> None:
    """Connect; where code outside :func:`pooled_connection` keeps one, wait until ``deadline`` for it to be closed."""
    while True:
        try:
            db.connect()
        except MaxConnectionsExceeded:
            if time.monotonic() >= deadline:
                raise MaxConnectionsExceeded(_ALL_IN_USE) from None
            time.sleep(_LOOK_AGAIN_SECONDS)
        else:
            return


@contextmanager
def transaction() -> Iterator[None]:
    """Run the statements inside as one transaction on a pooled connection."""
    with pooled_connection(), db.atomic():
        yield


def retry_while_away(
    write: Callable[[], _T], *, at_most_seconds: float = 90.0, sleep: Callable[[float], None] = time.sleep
) -> _T:
    """Run ``write`` on a pooled connection, retry it while the database is away, and answer what it answers.

    For what must not be forgotten (a mail is out, the row must say so). After ``at_most_seconds`` the database's error
    is raised.
    """
    deadline = time.monotonic() + at_most_seconds
    pause = 0.05
    while True:
        try:
            with pooled_connection():
                return write()
        except AWAY_ERRORS:
            if time.monotonic() + pause > deadline:
                raise
        sleep(pause)
        pause = min(pause * 2, 2.0)


def is_postgresql() -> bool:
    """Say whether the models are bound to PostgreSQL."""
    return isinstance(db.obj, peewee.PostgresqlDatabase)


def rows_of_bytes(sql: str, params: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Answer the rows of a statement that reads bytes, in binary: as text PostgreSQL writes them in hexadecimal."""
    with pooled_connection():
        if not is_postgresql():
            return list(db.execute_sql(sql, params).fetchall())
        with peewee.__exception_wrapper__:  # type: ignore[attr-defined]
            return list(db.cursor().execute(sql, params, binary=True).fetchall())


def forgetful_settings() -> list[str]:
    """Name the settings by which PostgreSQL forgets in a power cut what it had written; SQLite's are ours."""
    if not is_postgresql():
        return []
    statement = "SELECT name FROM pg_settings WHERE setting = 'off' AND name = ANY(%s) ORDER BY name"
    with pooled_connection():
        found = db.execute_sql(statement, (["fsync", "full_page_writes", "synchronous_commit"],))
        return [name for (name,) in found.fetchall()]


def standbys_not_waited_for() -> int:
    """Count the standbys of PostgreSQL that may lack what it said was written; 0 where it waits for one of them."""
    if not is_postgresql():
        return 0
    statement = (
        "SELECT count(*) FROM pg_stat_replication WHERE current_setting('synchronous_standby_names') = ''"
        " OR current_setting('synchronous_commit') IN ('off', 'local')"
    )
    with pooled_connection():
        return int(db.execute_sql(statement).fetchone()[0])


class _UtcDateTimeField(peewee.Field):
    """A moment, aware and in UTC: ``timestamptz`` on PostgreSQL, text that sorts as time on SQLite."""

    field_type = "TIMESTAMPTZ"

    def db_value(self, value: datetime | None) -> str | None:
        """Refuse a naive datetime; store microseconds at a fixed width so that text order is time order."""
        return None if value is None else to_column(value)

    def python_value(self, value: datetime | str | None) -> datetime | None:
        """Answer an aware UTC datetime, whatever the driver handed over.

        Text that is no moment reads as none: a row edited by hand must not stop those read with it.
        """
        try:
            moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        except ValueError:
            return None
        return None if moment is None else moment.astimezone(UTC)


if TYPE_CHECKING:
    _V = TypeVar("_V")

    class UtcDateTimeField(peewee.Field[_V]):
        """The field above as the type checker sees it: a moment, or a moment or nothing."""

        @overload
        def __new__(cls, *, null: Literal[True]) -> UtcDateTimeField[datetime | None]: ...
        @overload
        def __new__(cls, *, null: Literal[False] = ...) -> UtcDateTimeField[datetime]: ...
        def __new__(cls, *, null: bool = False) -> UtcDateTimeField[Any]:
            """Tell the type checker which of the two this field is."""
else:
    UtcDateTimeField = _UtcDateTimeField


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def to_column(value: datetime) -> str:
    """Write an aware moment as both databases store and compare it."""
    if value.tzinfo is None:
        raise InvalidInputError("datetime", value, "a moment with its time zone")
    return value.astimezone(UTC).isoformat(sep=" ", timespec="microseconds")


def from_column(value: datetime | str | None) -> datetime | None:
    """Answer the moment a database gave, aware and in UTC; ``None`` for text that is none."""
    moment: datetime | None = _UtcDateTimeField().python_value(value)
    return moment


class BaseModel(peewee.Model):
    """A table of the database the process is connected to."""

    class Meta:
        """Bind to the proxy, so that tests and processes choose the database."""

        database = db
        legacy_table_names = False
