"""One token for all lanes and processes, kept as long as it is good."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from structlog.testing import capture_logs

from rqmail.errors import MailAuthError, MailThrottledError, MailTransientError
from rqmail.mailers.graph.entra_app import EntraApp, GrantedToken
from rqmail.mailers.graph.token import GraphTokenSource, store_key
from rqmail.token_store import RedisTokenStore
from rqmail.vault import SecretBox

APP = EntraApp("https://login.example", "tenant", "client", "top-secret")


class SharedStore:
    """What processes share, in memory; turns end only when the test says so."""

    def __init__(self):
        self.values = {}
        self.turn_taken = False
        self.reads = 0

    def get(self, key):
        self.reads += 1
        return self.values.get(key)

    def put(self, key, value, ttl_seconds):
        self.values[key] = value

    def take_turn(self, key, seconds):
        taken, self.turn_taken = self.turn_taken, True
        return not taken


class Entra:
    """Grants token-1, token-2 …, or raises what the test put in its way."""

    def __init__(self):
        self.asked = []
        self.problem = None

    def __call__(self, claims):
        self.asked.append(claims)
        if self.problem is not None:
            raise self.problem
        return GrantedToken(f"token-{len(self.asked)}", 3600.0)


@pytest.fixture
def entra():
    return Entra()


@pytest.fixture
def store():
    return SharedStore()


@pytest.fixture
def source(entra, store, clock):
    return GraphTokenSource(APP, entra, store=store, clock=clock)


@pytest.fixture
def other_process(entra, store, clock):
    return GraphTokenSource(APP, entra, store=store, clock=clock)


def test_a_token_is_asked_for_once_and_used_from_memory(source, entra, store):
    assert {source.token() for _ in range(10)} == {"token-1"}
    assert entra.asked == [None]
    assert store.reads == 1


def test_forty_eight_lanes_that_ask_at_once_cause_one_request(store, clock):
    gate = threading.Barrier(48)
    granted = []

    def slow(claims):
        granted.append(claims)
        threading.Event().wait(0.02)
        return GrantedToken("token", 3600)

    source = GraphTokenSource(APP, slow, store=store, clock=clock)
    with ThreadPoolExecutor(48) as lanes:
        tokens = set(lanes.map(lambda _: (gate.wait(5), source.token())[1], range(48)))

    assert tokens == {"token"}
    assert granted == [None]


def test_forty_eight_lanes_that_ask_in_vain_cause_one_request_and_get_the_same_error(store, clock):
    gate = threading.Barrier(48)
    entra = Entra()
    entra.problem = MailAuthError("the client secret is wrong", status=401, code="AADSTS7000215", request_id="r")
    source = GraphTokenSource(APP, entra, store=store, clock=clock)

    def ask(_):
        gate.wait(5)
        with pytest.raises(MailAuthError) as caught:
            source.token()
        return caught.value

    with ThreadPoolExecutor(48) as lanes:
        errors = list(lanes.map(ask, range(48)))

    assert len(entra.asked) == 1
    assert {(str(e), e.status, e.code, e.request_id) for e in errors} == {
        ("the client secret is wrong", 401, "AADSTS7000215", "r")
    }
    assert len({id(error) for error in errors}) == 48


def test_another_process_finds_the_token_in_the_store(source, other_process, entra):
    assert source.token() == other_process.token() == "token-1"
    assert len(entra.asked) == 1


def test_a_token_is_never_handed_to_who_has_another_secret(source, entra, store, clock):
    source.token()
    impostor = EntraApp("https://login.example", "tenant", "client", "guessed")

    assert store_key(impostor) == store_key(APP)
    assert GraphTokenSource(impostor, entra, store=store, clock=clock).token() == "token-2"


@pytest.mark.parametrize(
    "stored", ["", "nonsense", "[]", "17", '["a"]', '{"a": 1}', "null", '[null, "stolen", "x", null, []]']
)
def test_a_poisoned_store_is_an_empty_one(source, store, stored):
    store.values[store_key(APP)] = stored

    assert source.token() == "token-1"


def test_a_token_is_renewed_early_after_half_its_life(source, entra, clock):
    source.token()
    clock.advance(seconds=1799)
    assert source.token() == "token-1"
    clock.advance(seconds=2)

    assert source.token() == "token-2"
    assert len(entra.asked) == 2


def test_one_process_renews_early_and_the_other_uses_what_it_has_until_it_finds_the_new_one(
    source, other_process, entra, store, clock
):
    source.token(), other_process.token()
    clock.advance(seconds=1801)
    store.turn_taken = True
    assert other_process.token() == "token-1"
    store.turn_taken = False
    assert source.token() == "token-2"
    clock.advance(seconds=31)

    assert other_process.token() == "token-2"
    assert len(entra.asked) == 2


def test_while_one_lane_renews_early_the_others_go_on_with_the_valid_token(store, clock):
    renewing, go_on = threading.Event(), threading.Event()

    def slow_at_second(claims):
        if store.values:
            renewing.set()
            assert go_on.wait(5)
            return GrantedToken("token-2", 3600)
        return GrantedToken("token-1", 3600)

    source = GraphTokenSource(APP, slow_at_second, store=store, clock=clock)
    source.token()
    clock.advance(seconds=1801)
    with ThreadPoolExecutor(1) as lanes:
        renewal = lanes.submit(source.token)
        assert renewing.wait(5)
        assert source.token() == "token-1"
        go_on.set()
        assert renewal.result(5) == "token-2"


@pytest.mark.parametrize("problem", [MailTransientError("busy"), MailAuthError("expired", code="AADSTS7000222")])
def test_the_last_good_token_stays_in_use_to_its_end_while_entra_stumbles(source, entra, clock, problem):
    source.token()
    entra.problem = problem
    clock.advance(seconds=1801)
    with capture_logs() as logs:
        assert source.token() == "token-1"
        assert source.token() == "token-1"
    assert [log["event"] for log in logs] == ["mail.graph.tokenRenewalFailed"]
    assert len(entra.asked) == 2

    clock.advance(seconds=1730)
    assert source.token() == "token-1"
    clock.advance(seconds=10)
    with pytest.raises(type(problem)):
        source.token()


def test_an_outage_of_entra_ends_for_us_within_seconds_of_its_end(source, entra, clock):
    entra.problem = MailTransientError("busy")
    for _ in range(5):
        with pytest.raises(MailTransientError):
            source.token()
    assert len(entra.asked) == 1
    entra.problem = None
    clock.advance(seconds=5)

    assert source.token() == "token-2"


@pytest.mark.parametrize(("asked_for", "waits"), [(None, 5), (20, 20), (3600, 60)])
def test_a_throttle_of_entra_is_heeded_but_for_a_minute_at_most(source, entra, clock, asked_for, waits):
    entra.problem = MailThrottledError("slow down", retry_after=asked_for)
    with pytest.raises(MailThrottledError) as caught:
        source.token()
    assert caught.value.retry_after == asked_for
    entra.problem = None
    clock.advance(seconds=waits - 1)
    with pytest.raises(MailThrottledError):
        source.token()
    clock.advance(seconds=1)

    assert source.token() == "token-2"


def test_a_refused_token_is_replaced_everywhere_by_one_request(source, other_process, entra):
    assert source.token() == other_process.token() == "token-1"
    with ThreadPoolExecutor(48) as lanes:
        fresh = set(lanes.map(lambda _: source.renewed("token-1", None), range(48)))

    assert fresh == {"token-2"}
    assert other_process.renewed("token-1", None) == "token-2"
    assert len(entra.asked) == 2
    assert source.token() == other_process.token() == "token-2"


def test_a_claims_challenge_reaches_entra(source, entra):
    source.token()
    source.renewed("token-1", '{"access_token":{}}')

    assert entra.asked == [None, '{"access_token":{}}']


def test_a_token_is_not_used_in_its_last_minute(source, entra, clock):
    source.token()
    entra.problem = MailTransientError("busy")
    clock.advance(seconds=3541)
    with pytest.raises(MailTransientError):
        source.token()


def test_no_secret_shows_when_a_source_is_printed_or_logged(source, entra, clock):
    token = source.token()
    entra.problem = MailTransientError("busy")
    clock.advance(seconds=1801)
    with capture_logs() as logs:
        source.token()
    for thing in (source, source._current, APP, GrantedToken(token, 1.0), logs):
        assert token not in repr(thing)
        assert "top-secret" not in repr(thing)


def test_processes_share_tokens_through_redis_where_nobody_can_read_them(entra, clock, redis_client):
    box = SecretBox("k" * 16)
    first = GraphTokenSource(APP, entra, store=RedisTokenStore(redis_client, box), clock=clock)
    second = GraphTokenSource(APP, entra, store=RedisTokenStore(redis_client, box), clock=clock)
    stranger = GraphTokenSource(APP, entra, store=RedisTokenStore(redis_client, SecretBox("x" * 16)), clock=clock)

    assert first.token() == second.token() == "token-1"
    key = f"rqmail:token:{store_key(APP)}".encode()
    assert redis_client.keys() == [key]
    assert b"token-1" not in redis_client.get(key)
    assert 3000 < redis_client.ttl(key) <= 3540
    assert stranger.token() == "token-2"
