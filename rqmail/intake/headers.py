"""Extra headers of a message: names and values as RFC 5322 has them, and none that something else decides."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit

from rqmail.errors import InvalidInputError

MAX_HEADERS = 50
MAX_VALUE_LENGTH = 998

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,76}")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
#: As RFC 5322 has it, without comments, quotes and blanks: what is written otherwise is read otherwise, too.
_MESSAGE_ID = re.compile(r"<[!#-'*+\-./0-9=?A-Z^-~]+@[!#-'*+\-./0-9=?A-Z^-~\[\]:]+>")
_MAX_MESSAGE_ID = 255
_URL = re.compile(r"[!-;=?-~]{1,900}")

#: What the provider writes, or a field of the message says.
_DECIDED_ELSEWHERE = {
    "from": "from",
    "to": "to",
    "cc": "cc",
    "bcc": "bcc",
    "subject": "subject",
    "reply-to": "replyTo",
    "importance": "importance",
    "priority": "importance",
    "x-priority": "importance",
    "x-msmail-priority": "importance",
    "disposition-notification-to": "readReceipt",
    "return-receipt-to": "deliveryReceipt",
}
_WRITTEN_BY_THE_PROVIDER = frozenset({
    "apparently-to", "arc-authentication-results", "arc-message-signature", "arc-seal", "authentication-results",
    "date", "dkim-signature", "message-id", "mime-version", "received", "return-path", "sender",
})  # fmt: skip
#: Our own; and what Exchange removes from mail that comes in (its header firewall).
_REFUSED_BEGINNINGS = ("x-rqmail-", "content-", "resent-", "x-ms-exchange-organization-", "x-ms-exchange-forest-")

LIST_UNSUBSCRIBE = "List-Unsubscribe"
_ONE_CLICK = (("List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),)


def checked_headers(headers: object, unsubscribe_url: str | None = None) -> tuple[tuple[str, str], ...]:
    """Answer the headers of a message, those of one-click unsubscribing (RFC 8058) among them.

    Raises ``InvalidInputError`` for what no mail may carry, and for a name that comes twice.
    """
    if isinstance(headers, str) or not isinstance(headers, Sequence):
        raise InvalidInputError("headers", type(headers).__name__, "a list of names and values")
    given = [_checked(one) for one in headers]
    if unsubscribe_url is not None:
        given += one_click_headers(_checked_url(unsubscribe_url))
    if len(given) > MAX_HEADERS:
        raise InvalidInputError("headers", len(given), f"at most {MAX_HEADERS} headers")
    seen: set[str] = set()
    for name, _ in given:
        if name.lower() in seen:
            raise InvalidInputError("headers", name, "each header once")
        seen.add(name.lower())
    return tuple(given)


def one_click_headers(url: str) -> tuple[tuple[str, str], ...]:
    """Answer the headers that make one click unsubscribe at ``url`` (RFC 8058)."""
    return ((LIST_UNSUBSCRIBE, f"<{url}>"), *_ONE_CLICK)


def is_message_id(value: object) -> bool:
    """Say whether this can be a mail's Message-ID, the same for whoever reads it."""
    return isinstance(value, str) and len(value) <= _MAX_MESSAGE_ID and _MESSAGE_ID.fullmatch(value) is not None


def _checked(one: object) -> tuple[str, str]:
    if isinstance(one, str) or not isinstance(one, Sequence) or len(one) != 2:
        raise InvalidInputError("headers", one, "pairs of a name and a value")
    name, value = one
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidInputError("headers", name, "a header's name: letters, digits and hyphens, at most 76")
    lower = name.lower()
    if lower in _DECIDED_ELSEWHERE:
        raise InvalidInputError("headers", name, f"no {name} here: the field {_DECIDED_ELSEWHERE[lower]} says it")
    if lower in _WRITTEN_BY_THE_PROVIDER or lower.startswith(_REFUSED_BEGINNINGS):
        raise InvalidInputError("headers", name, f"no {name}: it is written or removed on the way")
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError("headers", name, f"a value for {name}")
    value = value.strip()
    if len(value) > MAX_VALUE_LENGTH or _UNPRINTABLE.search(value):
        raise InvalidInputError(
            "headers", name, f"a value for {name} of at most {MAX_VALUE_LENGTH} printable characters on one line"
        )
    return name, value


def _checked_url(url: object) -> str:
    allowed = "an https address of at most 900 characters of ASCII, without < and >"
    try:
        good = isinstance(url, str) and _URL.fullmatch(url) is not None
        parts = urlsplit(url) if isinstance(url, str) and good else None
        good = parts is not None and parts.scheme == "https" and bool(parts.hostname)
    except ValueError:
        good = False
    if not good:
        raise InvalidInputError("unsubscribeUrl", url, allowed)
    return str(url)
