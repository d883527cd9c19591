"""The Redis server as the limiter calls it: which run of it answers, with which scripts, and what a failure means."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha1
from typing import Any, TypeVar

from redis import Redis
from redis.exceptions import (
    AuthenticationError,
    ConnectionError,
    MaxConnectionsError,
    NoPermissionError,
    NoScriptError,
    RedisError,
    ResponseError,
    TimeoutError,
)

from rqmail.logs import event_log
from rqmail.ratelimit.breaker import Breaker
from rqmail.ratelimit.connections import Connections, KeptConnectionLostError
from rqmail.ratelimit.scripts import Scripts, Verb, packed
from rqmail.text.scrubbing import scrubbed_start

#: So often a server is asked for its run although nothing points to another one, in seconds.
RUN_BELIEVED_SECONDS = 5.0
#: What was asked just now need not be asked again, in seconds.
_JUST_NOW_SECONDS = 0.25
#: A run as a number that Lua can hold.
_RUN_BITS = 52

T = TypeVar("T")

log = event_log("rqmail.ratelimit")


class Server:
    """Runs the scripts on one Redis server, each in one round trip, and fails open.

    A script carries the run of the server that it was made for, read from ``INFO``: a random number of the process, and
    one of its data that changes whenever a replica is promoted. What was written under another run is not believed. A
    server that was restarted or replaced does not know the scripts, so it is noticed without asking; where connections
    outlive such a change, within ``RUN_BELIEVED_SECONDS``.
    """

    def __init__(self, redis: Redis, monotonic_clock: Callable[[], float]) -> None:
        self.redis = redis
        self._connections = Connections(redis)
        self._monotonic = monotonic_clock
        self._breaker = Breaker(monotonic_clock)
        self._scripts: Scripts | None = None
        self._identified_at = 0.0
        self._answered_to: set[Verb] = set()

    # --- running scripts -------------------------------------------------------------------------------------------

    def run(self, verb: Verb, *arguments: bytes, keys: int = 1) -> Any:
        """Run a script on its keys, the first of the arguments."""
        scripts = self._scripts
        if scripts is None or self._monotonic() - self._identified_at > RUN_BELIEVED_SECONDS:
            scripts = self.identify()
        try:
            reply = self._connections.ask(packed(scripts[verb], arguments, keys))
        except NoScriptError:
            self._register(verb)
        except KeptConnectionLostError:
            self.identify()
        else:
            self._answered_to.add(verb)
            return reply
        try:
            return self._connections.ask(packed(self._believed()[verb], arguments, keys))
        except NoScriptError:
            self._register(verb)
            return self._connections.ask(packed(self._believed()[verb], arguments, keys))

    def run_many(self, verb: Verb, calls: Sequence[tuple[int, Sequence[bytes]]]) -> list[Any]:
        """Run a script several times in one round trip, each time on as many keys as its first arguments are.

        An answer that is an error is raised after all have run.
        """
        try:
            replies = self._pipelined(verb, calls)
        except NoScriptError:
            self._register(verb)
            replies = self._pipelined(verb, calls)
        self._answered_to.add(verb)
        return replies

    def identify(self, *, unless_just_now: bool = False) -> Scripts:
        """Ask the server which run of it this is, and answer the scripts for that run."""
        now = self._monotonic()
        scripts = self._scripts
        if unless_just_now and scripts is not None and now - self._identified_at <= _JUST_NOW_SECONDS:
            return scripts
        run = _run_of(self.redis, complain=scripts is None)
        if scripts is None or scripts.run != run:
            scripts = Scripts(run)
        self._scripts, self._identified_at, self._answered_to = scripts, now, set()
        return scripts

    def _believed(self) -> Scripts:
        scripts = self._scripts
        if scripts is None or self._monotonic() - self._identified_at > RUN_BELIEVED_SECONDS:
            return self.identify()
        return scripts

    def _register(self, verb: Verb) -> None:
        """Make a script known. A server that knew it a moment ago has been restarted or replaced."""
        scripts = self.identify(unless_just_now=verb not in self._answered_to)
        self.redis.script_load(scripts[verb].source)

    def _pipelined(self, verb: Verb, calls: Sequence[tuple[int, Sequence[bytes]]]) -> list[Any]:
        digest = self._believed()[verb].digest.decode()
        with self.redis.pipeline(transaction=False) as pipeline:
            for keys, arguments in calls:
                pipeline.evalsha(digest, keys, *arguments)
            return pipeline.execute()

    # --- failing open ----------------------------------------------------------------------------------------------

    def admit(self) -> None:
        """Raise when the server did not answer a moment ago and is not to be asked yet."""
        if not self._breaker.admits():
            raise HeldBackError

    @property
    def is_answering(self) -> bool:
        """Whether the server answered when it was last asked."""
        return self._breaker.is_closed

    def answered(self) -> None:
        """Note that the server answered."""
        self._breaker.succeeded()

    def or_open(self, call: Callable[[], T], otherwise: T, mailbox_key: str, op: str | None = None) -> T:
        """Answer the call, or ``otherwise`` after one warning when Redis fails; a server that is down is not asked."""
        try:
            self.admit()
            answer = call()
        except RedisError as error:
            self.warn(mailbox_key, error, op)
            return otherwise
        self.answered()
        return answer

    def warn(self, mailbox_key: str, error: RedisError, op: str | None = None) -> None:
        """Log a failure, and ask no more for a while where it was the server's."""
        if isinstance(error, (HeldBackError, MaxConnectionsError)):
            pass  # says nothing about the server
        elif isinstance(error, (ConnectionError, TimeoutError)):
            self._breaker.failed()
        else:
            self._breaker.succeeded()  # it answered, if only with an error
        fields = {"mailboxKey": mailbox_key, "err": short(error)}
        if op is not None:
            fields["op"] = op
        log.warning("mail.rateLimit.redisError", **fields)


class HeldBackError(ConnectionError):
    """Redis did not answer a moment ago; it was not asked again."""

    def __str__(self) -> str:
        return "did not answer a moment ago, not asked again yet"


def may_have_run(error: RedisError) -> bool:
    """Say whether a script may have run although it failed: perhaps only its answer is missing."""
    never_asked = (HeldBackError, MaxConnectionsError, AuthenticationError)
    return isinstance(error, (ConnectionError, TimeoutError)) and not isinstance(error, never_asked)


def short(error: Exception) -> str:
    """Answer an error's class and the first line of its text."""
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {scrubbed_start(lines[0], 200)}"


def _run_of(redis: Redis, *, complain: bool) -> int:
    """Answer a number for the server's run and data, 0 when it does not tell."""
    try:
        with redis.pipeline(transaction=False) as pipeline:
            pipeline.info("server")
            pipeline.info("replication")
            process, data = pipeline.execute()
        told = f"{process['run_id']} {data['master_replid']}"
    except (NoPermissionError, KeyError):
        if complain:
            log.warning("mail.rateLimit.runUnknown", err="INFO does not tell run_id and master_replid")
        return 0
    except ResponseError as error:
        if "unknown command" not in str(error):
            raise
        return 0
    return int(sha1(told.encode(), usedforsecurity=False).hexdigest(), 16) % 2**_RUN_BITS or 1
