"""Tokens in Redis: encrypted, short-lived, and no reason to stop when Redis does."""

from __future__ import annotations

import pytest
import redis

from mailers.servers import refused_url
from rqmail.token_store import RedisTokenStore
from rqmail.vault import SecretBox

BOX = SecretBox("k" * 16)


def test_what_is_put_is_got_until_its_time_is_over(redis_client):
    store = RedisTokenStore(redis_client, BOX)
    assert store.get("a") is None
    store.put("a", "token ✓", 60)

    assert store.get("a") == "token ✓"
    assert 55_000 < redis_client.pttl("rqmail:token:a") <= 60_000


def test_one_has_the_turn_at_a_time(redis_client):
    first, second = (RedisTokenStore(redis_client, BOX) for _ in range(2))

    assert [first.take_turn("a", 30), second.take_turn("a", 30), second.take_turn("b", 30)] == [True, False, True]
    assert 25_000 < redis_client.pttl("rqmail:token:a:turn") <= 30_000
    redis_client.delete("rqmail:token:a:turn")
    assert second.take_turn("a", 30)


@pytest.mark.parametrize(
    "value",
    [b"", b"nonsense", b"\xff\xfe", BOX.encrypt("x").encode()[:-5]],
    ids=["empty", "nonsense", "not ascii", "cut off"],
)
def test_what_cannot_be_decrypted_is_not_there(redis_client, value):
    redis_client.set("rqmail:token:a", value)

    assert RedisTokenStore(redis_client, BOX).get("a") is None


def test_a_key_of_the_wrong_kind_is_not_there(redis_client):
    redis_client.lpush("rqmail:token:a", 1)

    assert RedisTokenStore(redis_client, BOX).get("a") is None


def test_a_client_that_decodes_answers_works_as_well(valkey, redis_client):
    with redis.Redis(host=valkey.host, port=valkey.port, decode_responses=True) as client:
        store = RedisTokenStore(client, BOX)
        store.put("a", "token", 60)

        assert store.get("a") == "token"


def test_without_redis_nothing_is_shared_and_everybody_may_renew():
    port = int(refused_url().rsplit(":", 1)[1])
    with redis.Redis(port=port, retry=None) as client:
        store = RedisTokenStore(client, BOX)
        store.put("a", "token", 60)

        assert store.get("a") is None
        assert store.take_turn("a", 30)
