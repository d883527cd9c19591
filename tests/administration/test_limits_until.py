"""Limits that hold until a moment go back to what they were by themselves, on both databases."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail import bootstrap
from rqmail.errors import InvalidInputError
from rqmail.models.base import db
from rqmail.settings import Settings


@pytest.fixture
def application(database, redis_url, clock):
    """An application on each of the databases."""
    settings = Settings(
        _env_file=None, database_url=database.url, redis_url=redis_url, secret_key="a-key-for-tests-only"
    )
    application = bootstrap.build(settings, clock)
    yield application
    application.limiter.close()
    application.redis.close()
    db.obj.close_all()


@pytest.fixture
def news(application):
    return application.mailboxes.add("news", "news@x.nl", rate_limit_per_minute=10).key


def limits(application, key):
    view = application.mailboxes.get(key)
    return view.rate_limit_per_minute, view.rate_limit_recipients_per_day


def test_limits_go_back_to_what_they_were_when_their_time_is_over(application, clock, news):
    tonight = clock() + timedelta(hours=9)
    changes = application.changes.by("sanne")
    changes.set_mailbox(news, rate_limit_per_minute=28, rate_limit_recipients_per_day=500, limits_until=tonight)
    assert limits(application, news) == (28, 500)
    assert changes.end_limits() == []
    clock.set(tonight)
    assert changes.end_limits() == [news]
    assert limits(application, news) == (10, None)
    assert application.mailboxes.get(news).limits_until is None
    assert changes.end_limits() == []
    line = application.audit.lines()[0]
    assert (line.who, line.action, line.subject) == ("rqmail", "mailbox.limits-ended", "mailbox:news")
    assert (line.before["rateLimitPerMinute"], line.after["rateLimitPerMinute"]) == (28, 10)
    assert application.senders.find("mailbox:news").limits.per_minute == 10


def test_a_second_change_before_the_end_still_goes_back_to_the_limits_before_the_first(application, clock, news):
    tonight = clock() + timedelta(hours=9)
    application.mailboxes.set(news, rate_limit_per_minute=28, limits_until=tonight)
    application.mailboxes.set(news, rate_limit_per_minute=20)
    application.mailboxes.set(news, rate_limit_per_minute=15, limits_until=tonight + timedelta(days=1))
    clock.set(tonight + timedelta(days=1))
    application.changes.end_limits()
    assert limits(application, news) == (10, None)


def test_limits_for_good_end_an_exception(application, clock, news):
    application.mailboxes.set(news, rate_limit_per_minute=28, limits_until=clock() + timedelta(hours=9))
    application.mailboxes.set(news, rate_limit_per_minute=12, limits_until=None)
    clock.advance(days=2)
    assert application.changes.end_limits() == []
    assert limits(application, news) == (12, None)


@pytest.mark.parametrize("away", [timedelta(0), timedelta(seconds=-1), timedelta(days=367)])
def test_a_moment_that_has_passed_or_is_too_far_away_is_refused(application, clock, news, away):
    with pytest.raises(InvalidInputError, match="limitsUntil"):
        application.mailboxes.set(news, rate_limit_per_minute=28, limits_until=clock() + away)
    assert limits(application, news) == (10, None)


def test_the_job_that_recovers_mail_ends_them(application, clock, news, monkeypatch):
    from jobs import mail

    monkeypatch.setattr(mail, "application", lambda: application)
    application.mailboxes.set(news, rate_limit_per_minute=28, limits_until=clock() + timedelta(hours=1))
    clock.advance(hours=1)
    mail.recover_messages()
    assert limits(application, news) == (10, None)
