"""A day that several mailboxes share: never over in any scope, given back in all of them, refilled in all of them."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.exceptions import TimeoutError as RedisTimeout

from ratelimit.reference import DAY, SLOT, Call, Model
from ratelimit.test_any_history import LEASE_MS, dump, milliseconds
from rqmail.clock import to_epoch_ms
from rqmail.ratelimit.limiter import Denial, MailRateLimiter, Reservation
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.scopes import Scope
from support.clock import MovableClock

TENANT = Scope("tenant", "entra/contoso", 14)
ONMICROSOFT = Scope("onmicrosoft", "entra/contoso/onmicrosoft", 6)
LIMITS = RateLimits(per_minute=4, recipients_per_day=12, in_flight=50)
NO_BOUND = 10**9

#: Mailboxes, and what they share with others.
SCOPES = {
    "one@contoso.example": (TENANT,),
    "two@contoso.example": (TENANT,),
    "raw@contoso.onmicrosoft.com": (TENANT, ONMICROSOFT),
    "alone@fabrikam.example": (),
}

waits = st.one_of(
    st.integers(0, 70_000), st.sampled_from([60_000, SLOT, DAY, DAY + SLOT, DAY - 1]), st.integers(0, DAY // 3)
)
steps = st.lists(
    st.one_of(
        *[st.tuples(st.just("reserve"), st.sampled_from(list(SCOPES)), st.integers(1, 7), st.integers(0, 7))] * 3,
        *[st.tuples(st.sampled_from(["settle", "release"]), st.integers(0, 9))] * 2,
        *[st.tuples(st.just("wait"), waits)] * 2,
        st.just(("flush",)),
        st.just(("wait until free",)),
    ),
    min_size=20,
    max_size=50,
)


@pytest.mark.parametrize("window", ["rolling", "fixed"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
def test_no_mailbox_and_no_scope_is_ever_over_and_everything_is_given_back_and_refilled(redis_client, window, steps):
    redis_client.flushall()
    clock, rolling = MovableClock(), window == "rolling"
    mailboxes = {
        key: Model(LIMITS.per_minute, LIMITS.recipients_per_day, LIMITS.in_flight, rolling, LEASE_MS) for key in SCOPES
    }
    scopes = {
        scope.key: Model(NO_BOUND, scope.external_per_day, NO_BOUND, rolling, LEASE_MS)
        for scope in (TENANT, ONMICROSOFT)
    }
    budgets = mailboxes | scopes

    def history(key, since_ms, _now_ms):
        """Tell what was granted, what may be running with its name, as the table does."""
        return [
            (call.at + LEASE_MS, call.recipients, call.id) if call.in_flight else (call.at, call.recipients)
            for call in budgets[key].calls
            if call.at >= since_ms
        ]

    def now() -> float:
        return milliseconds(clock)

    def admitted(key, recipients, external, at) -> bool:
        shared = SCOPES[key] if external else ()
        return mailboxes[key].admits(at, recipients) and all(scopes[one.key].admits(at, external) for one in shared)

    limiter = MailRateLimiter(redis_client, window, clock, history, lease_ms=LEASE_MS)
    live: list[tuple[Reservation, dict[str, Call]]] = []
    retry_after = 0
    for verb, *told in steps:
        if verb == "wait":
            clock.advance(timedelta(milliseconds=told[0]))
        elif verb == "wait until free":
            clock.advance(timedelta(milliseconds=retry_after))
            retry_after = 0
        elif verb == "flush":
            # What runs is settled first: after its lease the table counts it all the same, and it gives nothing back.
            for _, calls in live:
                for call in calls.values():
                    call.in_flight = False
            live = []
            redis_client.flushall()
        elif verb == "reserve":
            key, recipients, external = told[0], told[1], min(told[1], told[2])
            for budget in budgets.values():  # begins to know what it was not asked about yet
                budget.calls = [call for call in budget.calls if call.at > now() - 3 * DAY]
            before = dump(redis_client)
            shared = SCOPES[key]
            answer = limiter.check_and_reserve(key, recipients, LIMITS, external_count=external, scopes=shared)
            if external > 6 and ONMICROSOFT in shared:
                assert (answer.never, answer.scope) == (True, "onmicrosoft")
                continue
            assert isinstance(answer, Reservation) == admitted(key, recipients, external, now()), answer
            if isinstance(answer, Reservation):
                calls = {key: Call(answer.id, now(), recipients)}
                calls |= {one.key: Call(answer.id, now(), external) for one in shared if external}
                for name, call in calls.items():
                    budgets[name].calls.append(call)
                live.append((answer, calls))
            else:
                assert all(dump(redis_client)[name] == kept for name, kept in before.items())
                retry_after = answer.retry_after_ms
                assert admitted(key, recipients, external, now() + retry_after)
                assert not admitted(key, recipients, external, now() + retry_after - 2)
                if answer.scope != "mailbox":
                    assert answer.reason == "day"
                    assert answer.scope in {one.name for one in shared}
        elif live:
            reservation, calls = live.pop(told[0] % len(live))
            (limiter.settle if verb == "settle" else limiter.release)(reservation)
            limiter.release(reservation)  # a second time, or too late: gives nothing
            for name, call in calls.items():
                if verb == "settle":
                    call.in_flight = False
                else:
                    budgets[name].calls.remove(call)

    per_day = dict.fromkeys(mailboxes, LIMITS.recipients_per_day) | {
        one.key: one.external_per_day for one in (TENANT, ONMICROSOFT)
    }
    for key, budget in budgets.items():
        if rolling:
            assert budget.most_in_any(DAY)[1] <= per_day[key]
    usages = limiter.usage({one.key: one.limits for one in (TENANT, ONMICROSOFT)})
    for key, model in scopes.items():
        today = sum(call.recipients for call in model.calls if call.at // DAY == now() // DAY)
        assert usages[key].day_bucket.used == today
        if rolling:
            held = sum(call.recipients for call in model.calls if (call.at // SLOT + 1) * SLOT + DAY > now())
            assert usages[key].day_rolling.used == held
    for key in redis_client.scan_iter("mail:rate:*"):
        assert redis_client.pttl(key) > 0, key


def test_a_mail_without_external_recipients_goes_past_a_scope_that_is_used_up(limiter):
    key = "one@contoso.example"
    assert isinstance(limiter.check_and_reserve(key, 10, LIMITS, external_count=6, scopes=(ONMICROSOFT,)), Reservation)
    denial = limiter.check_and_reserve(key, 1, LIMITS, external_count=1, scopes=(ONMICROSOFT,))
    assert isinstance(denial, Denial)
    assert (denial.reason, denial.scope) == ("day", "onmicrosoft")
    assert isinstance(limiter.check_and_reserve(key, 2, LIMITS, external_count=0, scopes=(ONMICROSOFT,)), Reservation)
    denial = limiter.check_and_reserve(key, 1, LIMITS, external_count=0, scopes=(ONMICROSOFT,))
    assert (denial.reason, denial.scope) == ("day", "mailbox")


def test_a_reservation_asked_for_twice_counts_once_in_every_scope(limiter):
    for _ in range(2):
        limiter.check_and_reserve("a@b.example", 5, LIMITS, "same", external_count=4, scopes=(TENANT, ONMICROSOFT))
    usages = limiter.usage({one.key: one.limits for one in (TENANT, ONMICROSOFT)})
    assert {usage.day.used for usage in usages.values()} == {4}


def test_what_goes_out_while_redis_is_away_is_counted_in_every_scope_once_it_answers(redis_client, clock, monkeypatch):
    ticks = iter(range(0, 10_000, 10))  # the breaker closes between any two questions
    limiter = MailRateLimiter(redis_client, clock=clock, monotonic_clock=lambda: next(ticks))
    wanted = {"external_count": 2, "scopes": (TENANT, ONMICROSOFT)}
    limiter.check_and_reserve("a@b.example", 2, LIMITS, **wanted)
    ask = limiter._ask
    monkeypatch.setattr(limiter, "_ask", lambda *_, **__: (_ for _ in ()).throw(RedisTimeout("too slow")))
    sent = limiter.check_and_reserve("a@b.example", 2, LIMITS, **wanted)
    lost = limiter.check_and_reserve("a@b.example", 2, LIMITS, **wanted)
    assert not sent.counted
    monkeypatch.setattr(limiter, "_ask", ask)
    limiter.settle(sent)
    limiter.release(lost)
    limiter.check_and_reserve("a@b.example", 1, LIMITS)
    usages = limiter.usage({one.key: one.limits for one in (TENANT, ONMICROSOFT)})
    assert {usage.day.used for usage in usages.values()} == {4}


def test_an_attempt_that_a_refill_took_for_running_counts_once_when_it_asks(redis_client, clock):
    until = to_epoch_ms(clock()) + LEASE_MS

    def history(key, _since_ms, _now_ms):
        return [(until, 3, "mine")] if key == TENANT.key else []

    limiter = MailRateLimiter(redis_client, clock=clock, history=history)
    limiter.usage({TENANT.key: TENANT.limits})
    assert limiter.check_and_reserve("a@b.example", 3, LIMITS, "mine", external_count=3, scopes=(TENANT,))
    assert limiter.usage({TENANT.key: TENANT.limits})[TENANT.key].day.used == 3
