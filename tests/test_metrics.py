"""What happened, counted over all processes."""

from datetime import timedelta

import pytest
from redis import Redis

from rqmail.metrics import Metrics


@pytest.fixture
def metrics(redis_client, clock):
    return Metrics(redis_client, clock)


def test_the_last_hour_tells_minute_by_minute_what_happened(metrics, clock):
    metrics.count("sent", "news@x.nl", 0.3)
    metrics.count("sent", "info@x.nl")
    metrics.count("call", "throttled", 0.1)
    metrics.flush()
    clock.advance(minutes=2)
    metrics.count("deferred", "minute")
    metrics.count("failed", "rejected")
    metrics.flush()
    hour = metrics.last_hour()
    assert len(hour) == 60
    assert hour[-1].at == clock().replace(second=0, microsecond=0)
    assert hour[0].at == hour[-1].at - timedelta(minutes=59)
    assert [(m.sent, m.deferred, m.failed) for m in hour[-3:]] == [(2, 0, 0), (0, 0, 0), (0, 1, 1)]
    assert not any(m.sent for m in hour[:-3])


def test_what_is_older_than_an_hour_is_no_longer_told_and_soon_forgotten(metrics, clock, redis_client):
    metrics.count("sent", "news@x.nl")
    metrics.flush()
    [minute] = redis_client.keys("rqmail:metrics:minute:*")
    assert 0 < redis_client.ttl(minute) <= 7200
    clock.advance(minutes=60)
    assert not any(m.sent for m in metrics.last_hour())


def test_the_totals_go_on_whatever_the_minute(metrics, clock):
    for _ in range(3):
        metrics.count("sent", "news@x.nl")
        metrics.flush()
        clock.advance(hours=2)
    [sample] = metrics.samples()
    assert (sample.event, sample.label, sample.count) == ("sent", "news@x.nl", 3)


def test_how_often_each_mailbox_was_denied_is_told_for_the_last_hour_by_reason_and_then_forgotten(
    metrics, clock, redis_client
):
    for mailbox_key, reason in (("news@x.nl", "minute"), ("news@x.nl", "minute"), ("a|b@x.nl", "day")):
        metrics.denied(mailbox_key, reason)
    metrics.flush()
    clock.advance(minutes=30)
    metrics.denied("news@x.nl", "minute")
    metrics.denied("news@x.nl", "paused")
    metrics.count("sent", "news@x.nl")
    metrics.flush()
    assert metrics.denied_last_hour() == {"news@x.nl": {"minute": 3, "paused": 1}, "a|b@x.nl": {"day": 1}}
    assert {(s.event, s.label): s.count for s in metrics.samples() if s.event == "denied"} == {
        ("denied", "day"): 1,
        ("denied", "minute"): 3,
        ("denied", "paused"): 1,
    }
    clock.advance(minutes=45)
    assert metrics.denied_last_hour() == {"news@x.nl": {"minute": 1, "paused": 1}}
    assert all(0 < redis_client.ttl(key) <= 7200 for key in redis_client.keys("rqmail:metrics:minute:*"))


def test_while_redis_is_away_nobody_is_told_how_often_it_denied(clock):
    with Redis(host="127.0.0.1", port=1, socket_connect_timeout=5) as away:
        assert Metrics(away, clock).denied_last_hour() is None
