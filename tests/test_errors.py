"""The errors: what they say, what they carry, and who catches what."""

from __future__ import annotations

import inspect

import pytest

from rqmail import errors
from rqmail.errors import (
    InvalidInputError,
    MailboxBusyError,
    MailboxPausedError,
    MailError,
    MailRateLimitExceededError,
    MailThrottledError,
    NotFoundError,
    RqmailError,
    SettingsError,
)

ALL = [one for _, one in inspect.getmembers(errors, inspect.isclass) if issubclass(one, Exception)]
OF_A_SEND = [
    "MailRateLimitExceededError",
    "MailboxPausedError",
    "MailboxBusyError",
    "MailThrottledError",
    "MailTransientError",
    "MailRejectedError",
    "MailboxUnavailableError",
    "MailAuthError",
    "MailOutcomeUnknownError",
]


def test_a_denial_by_our_own_budget_says_who_why_and_when_in_the_words_callers_know():
    error = MailRateLimitExceededError("news@example.org", "minute", 12_345)
    assert str(error) == "Mail rate limit exceeded for news@example.org (minute); retry in 12345ms"
    assert error.name == "MailRateLimitExceededError"
    assert (error.mailbox_key, error.reason, error.retry_after_ms) == ("news@example.org", "minute", 12_345)


def test_a_pause_and_a_busy_mailbox_say_when_to_come_back():
    paused = MailboxPausedError("news@example.org", "throttled", 60_000)
    assert str(paused) == "Mailbox news@example.org is paused (throttled); retry in 60000ms"
    busy = MailboxBusyError("news@example.org", 40)
    assert str(busy) == "Mailbox news@example.org has all its requests in flight; retry in 40ms"
    assert (paused.retry_after_ms, busy.retry_after_ms) == (60_000, 40)


@pytest.mark.parametrize("name", OF_A_SEND)
def test_every_way_a_send_can_fail_is_caught_as_a_mail_error(name):
    assert issubclass(getattr(errors, name), MailError)


def test_no_way_a_send_can_fail_is_caught_by_the_handler_of_another():
    ways = [getattr(errors, name) for name in OF_A_SEND]
    assert not [(one, other) for one in ways for other in ways if one is not other and issubclass(one, other)]


@pytest.mark.parametrize("error", ALL, ids=lambda error: error.__name__)
def test_everything_raised_on_purpose_is_an_rqmail_error_and_says_when(error):
    assert issubclass(error, RqmailError)
    assert error.__name__ == "RqmailError" or error.__name__.endswith("Error")
    assert error.__doc__
    assert error.__doc__.split("\n")[0].rstrip().endswith((".", ":"))


def test_a_mail_error_carries_what_support_asks_for():
    error = MailThrottledError(
        "slow down", retry_after=12.5, status=429, code="ErrorServerBusy", request_id="r", client_request_id="c"
    )
    assert str(error) == "slow down"
    assert (error.retry_after, error.status, error.code) == (12.5, 429, "ErrorServerBusy")
    assert (error.request_id, error.client_request_id) == ("r", "c")
    nothing = MailError("no answer")
    assert (nothing.status, nothing.code, nothing.request_id, nothing.client_request_id) == (None,) * 4


def test_wrong_input_names_its_field_and_what_is_allowed():
    error = InvalidInputError("to", "nobody@", "an address")
    assert str(error) == "to: 'nobody@' is not valid; allowed: an address"
    assert (error.field, error.value, error.allowed) == ("to", "nobody@", "an address")
    assert issubclass(SettingsError, InvalidInputError)


def test_what_is_missing_is_named():
    error = NotFoundError("mailbox", "news")
    assert str(error) == "mailbox 'news' does not exist"
    assert (error.kind, error.key) == ("mailbox", "news")
