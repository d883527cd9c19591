"""Graph's answers, sorted: every row of what is known about them."""

from __future__ import annotations

import json

import pytest
from structlog.testing import capture_logs

from rqmail.errors import (
    MailAuthError,
    MailboxUnavailableError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
    NoNamedPropertyError,
)
from rqmail.mailers.graph.errors import error_for_answer

THROTTLED, TRANSIENT, UNAVAILABLE = MailThrottledError, MailTransientError, MailboxUnavailableError
AUTH, REJECTED, UNKNOWN = MailAuthError, MailRejectedError, MailOutcomeUnknownError


def body(code: str | None, message: str = "") -> bytes:
    return json.dumps({"error": {"code": code, "message": message}}).encode()


ROWS = [
    (429, "TooManyRequests", "", THROTTLED),
    (429, "ApplicationThrottled", "MailboxConcurrency", THROTTLED),
    (429, "ErrorSomethingNew", "", THROTTLED),
    (429, None, "", THROTTLED),
    (503, "ErrorServerBusy", "", THROTTLED),
    (503, "ServiceUnavailable", "", THROTTLED),
    (503, "CommandConcurrencyLimitReached", "", THROTTLED),
    (503, "MailboxInfoStale", "", THROTTLED),
    (409, "ErrorIrresolvableConflict", "", TRANSIENT),
    (500, "ErrorMailboxStoreUnavailable", "", TRANSIENT),
    (500, "ErrorMailboxMoveInProgress", "", TRANSIENT),
    (500, "ErrorMailboxFailover", "", TRANSIENT),
    *[(status, "ErrorExceededMessageLimit", "", UNAVAILABLE) for status in (429, 403, 400, 500)],
    *[(status, "ErrorSubmissionQuotaExceeded", "", UNAVAILABLE) for status in (429, 403, 400, 500)],
    (403, "ErrorMessageSubmissionBlocked", "", UNAVAILABLE),
    (403, "ErrorAccountSuspend", "", UNAVAILABLE),
    (403, "ErrorAccountSuspendShowTierUpgrade", "", UNAVAILABLE),
    (400, "ErrorSendAsDenied", "550 5.1.8 Access denied, bad outbound sender", UNAVAILABLE),
    (500, None, "Bad Outbound Sender", UNAVAILABLE),
    (403, "ErrorQuotaExceeded", "", UNAVAILABLE),
    (507, "ErrorQuotaExceeded", "Cannot get ID from name.", NoNamedPropertyError),
    (507, None, "", UNAVAILABLE),
    (507, "ErrorSomethingNew", "", UNAVAILABLE),
    (403, "ErrorAccessDenied", "Access to OData is disabled: [RAOP] : Blocked by tenant policy", UNAVAILABLE),
    (404, "ErrorInvalidUser", "", UNAVAILABLE),
    (404, "ResourceNotFound", "", UNAVAILABLE),
    (404, "MailboxNotEnabledForRESTAPI", "", UNAVAILABLE),
    (404, None, "", UNAVAILABLE),
    (403, "ErrorAccessDenied", "Access is denied. Check credentials and try again.", AUTH),
    (403, None, "", AUTH),
    (401, "InvalidAuthenticationToken", "", AUTH),
    (401, None, "", AUTH),
    (403, "ErrorSendAsDenied", "", REJECTED),
    (400, "ErrorInvalidRecipients", "", REJECTED),
    (400, "InvalidInternetMessageHeader", "", REJECTED),
    (400, "ErrorMimeContentInvalid", "", REJECTED),
    (400, "ErrorMimeContentInvalidBase64String", "", REJECTED),
    (413, None, "", REJECTED),
    (413, "RequestEntityTooLarge", "", REJECTED),
    (400, "ErrorMessageSizeExceeded", "", REJECTED),
    (400, "ErrorVirusDetected", "", REJECTED),
    (400, None, "", REJECTED),
    (408, None, "", UNKNOWN),
    (500, "ErrorInternalServerError", "", UNKNOWN),
    (500, "UnknownError", "", UNKNOWN),
    (500, None, "", UNKNOWN),
    (502, None, "", UNKNOWN),
    (504, None, "", UNKNOWN),
    (504, "UnknownError", "", UNKNOWN),
    (504, "ServiceUnavailable", "", UNKNOWN),
    (503, None, "", UNKNOWN),
    (200, None, "", UNKNOWN),
    (302, None, "", TRANSIENT),
    (418, "ErrorSomethingNew", "", REJECTED),
    (403, "ErrorSomethingNew", "", REJECTED),
    (500, "ErrorSomethingNew", "", UNKNOWN),
    (503, "ErrorSomethingNew", "", UNKNOWN),
]


@pytest.mark.parametrize(("status", "code", "message", "expected"), ROWS)
def test_each_known_answer_has_its_class(now, status, code, message, expected):
    error = error_for_answer(status, {}, body(code, message), now)

    assert type(error) is expected
    assert (error.status, error.code) == (status, code)


def test_codes_are_recognised_in_any_capitals(now):
    assert type(error_for_answer(500, {}, body("errorEXCEEDEDmessageLimit"), now)) is UNAVAILABLE


def test_a_503_that_says_when_to_come_back_is_a_throttle(now):
    error = error_for_answer(503, {"Retry-After": "7"}, b"<html>busy</html>", now)

    assert type(error) is THROTTLED
    assert error.retry_after == 7


INNER = {"request-id": "r-1", "client-request-id": "c-1", "date": "2026-03-01T12:00:00"}


@pytest.mark.parametrize("inner_name", ["innerError", "innererror"])
def test_the_ids_are_read_from_the_inner_error_when_the_headers_lack_them(now, inner_name):
    content = json.dumps({"error": {"code": "ErrorServerBusy", "message": "", inner_name: INNER}}).encode()

    error = error_for_answer(503, {}, content, now)

    assert (error.request_id, error.client_request_id) == ("r-1", "c-1")


def test_the_ids_in_the_headers_come_first(now):
    content = json.dumps({"error": {"code": "ErrorServerBusy", "message": "", "innerError": INNER}}).encode()

    error = error_for_answer(503, {"request-id": "r-2", "Client-Request-Id": "c-2"}, content, now)

    assert (error.request_id, error.client_request_id) == ("r-2", "c-2")


def test_a_known_inner_code_explains_an_unknown_outer_one(now):
    content = json.dumps(
        {"error": {"code": "generalThing", "innerError": {"code": "ErrorExceededMessageLimit"}}}
    ).encode()

    assert type(error_for_answer(400, {}, content, now)) is UNAVAILABLE


ODD_BODIES = [
    b"",
    b"<html><h1>502 Bad Gateway</h1></html>",
    b"\xff\xfe\x00nonsense",
    b'{"error": {"code": "ErrorSer',
    b"null",
    b"[]",
    b"17",
    b'{"error": null}',
    b'{"error": "text"}',
    b'{"error": []}',
    b'{"error": {"code": 17, "message": ["x"], "innerError": "y"}}',
    b'{"error": {"code": "", "message": null, "innererror": []}}',
    b"[" * 60_000,
    b"x" * 1_000_000,
]


@pytest.mark.parametrize("content", ODD_BODIES, ids=range(len(ODD_BODIES)))
@pytest.mark.parametrize(
    ("status", "expected"), [(400, REJECTED), (429, THROTTLED), (500, UNKNOWN), (504, UNKNOWN), (401, AUTH)]
)
def test_without_a_readable_code_the_status_decides_in_silence(now, content, status, expected):
    with capture_logs() as logs:
        error = error_for_answer(status, {}, content, now)

    assert type(error) is expected
    assert error.code is None
    assert logs == []
    assert len(str(error)) < 400


@pytest.mark.parametrize(
    "content",
    [
        b'{"error":{"code":"ErrorExceededMessageLimit","message":"The mess',
        b'{"error": {"code": "ErrorExceededMessageLimit", "message": "' + b"x" * 1_000_000 + b'"}}',
        b'\xef\xbb\xbf{"error":{"code":"ErrorExceededMessageLimit"}}',
    ],
    ids=["truncated", "a megabyte", "with a byte order mark"],
)
def test_a_code_at_the_front_is_read_whatever_follows(now, content):
    error = error_for_answer(500, {}, content, now)

    assert type(error) is UNAVAILABLE
    assert len(str(error)) < 400
    assert "xxx" not in str(error)


def test_an_unknown_code_is_warned_about_with_the_ids_to_look_it_up(now):
    with capture_logs() as logs:
        error_for_answer(418, {"request-id": "r-9"}, body("ErrorSomethingNew", "for zoe@example.org"), now)

    assert logs == [
        {
            "event": "mail.graph.unknownCode",
            "log_level": "warning",
            "status": 418,
            "code": "ErrorSomethingNew",
            "requestId": "r-9",
        }
    ]


@pytest.mark.parametrize("row", [row for row in ROWS if row[1] not in (None, "ErrorSomethingNew")])
def test_a_known_code_is_no_reason_to_warn(now, row):
    with capture_logs() as logs:
        error_for_answer(row[0], {}, body(row[1], row[2]), now)

    assert [log for log in logs if row[1] != "RequestEntityTooLarge"] == []


@pytest.mark.parametrize(
    ("status", "code", "words"),
    [
        (429, "ErrorExceededMessageLimit", "over its sending quota"),
        (403, "ErrorAccessDenied", "Mail.Send"),
        (404, "ErrorInvalidUser", "check the sender"),
        (507, None, "full"),
        (413, None, "4 MB"),
    ],
)
def test_the_words_tell_a_person_what_to_do(now, status, code, words):
    text = str(error_for_answer(status, {}, body(code), now))

    assert words in text
    assert f"status {status}" in text
    assert (code or "no code") in text


def test_addresses_and_line_breaks_in_the_providers_message_do_not_reach_the_error(now):
    text = str(error_for_answer(400, {}, body("ErrorInvalidRecipients", "Recipient:\r\n<zoe@example.org> bad"), now))

    assert "zoe" not in text
    assert "\n" not in text
    assert "<address>" in text


RETRY_AFTER = [
    ("30", 30.0),
    (" 1 ", 1.0),
    ("3600", 3600.0),
    ("Sun, 01 Mar 2026 12:02:00 GMT", 120.0),
    ("Sunday, 01-Mar-26 12:02:00 GMT", 120.0),
    (None, None),
    ("", None),
    ("0", None),
    ("-5", None),
    ("7200", 7200.0),
    ("86400", 86400.0),
    ("86401", None),
    ("999999999999", None),
    ("nan", None),
    ("inf", None),
    ("soon", None),
    ("Sun, 01 Mar 2026 11:59:00 GMT", None),
    ("Sun, 01 Mar 2026 14:00:00 GMT", 7200.0),
    ("Mon, 02 Mar 2026 12:00:01 GMT", None),
    ("Fri, 01 Jan 1000000 00:00:00 GMT", None),
    ("Fri, 01 Jan 99999999999999999999 00:00:00 GMT", None),
    ("Fri, 01 Jan 2027 00:00:00 +999999999999", None),
    ("Fri, 31 Dec 9999 23:59:59 -2359", None),
]


@pytest.mark.parametrize(("value", "seconds"), RETRY_AFTER)
def test_retry_after_is_taken_in_both_forms_and_only_when_it_makes_sense(now, value, seconds):
    headers = {} if value is None else {"retry-after": value}

    assert error_for_answer(429, headers, b"", now).retry_after == seconds


def test_a_code_that_is_no_code_is_made_harmless(now):
    error = error_for_answer(400, {}, body("zoe@example.org\r\n" + "x" * 5000), now)

    assert "zoe" not in str(error)
    assert "\n" not in str(error)
    assert len(error.code) <= 100
