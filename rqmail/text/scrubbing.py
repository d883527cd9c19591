"""Keeps secrets and mail addresses out of whatever is written for people to read: logs, error texts, pages.

What is secret is said once, with :func:`keep_secret`, by whoever reads it; :func:`scrubbed` then takes it out of any
text, together with what looks like a secret (tokens in headers, keys, passwords in URLs) and, on request, addresses.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from bisect import bisect_left
from collections import OrderedDict
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"

#: Shorter ones would take ordinary words out of every text; a word of this length is taken out as a whole word only.
_SHORTEST, _LONG_ENOUGH = 6, 12

#: Kept at most: the settings' few, each tenant's two, and the tokens of the last hours.
_MOST = 20_000

_known: OrderedDict[str, None] = OrderedDict()
_snapshot: tuple[str, ...] = ()
_lock = threading.Lock()

#: An event name of ours: never scrubbed, or a database whose password is ``mail`` would rename half of them.
_EVENT_NAME = re.compile(r"[a-z]+(?:\.[A-Za-z]+)+")

_HEX = re.compile("%[0-9A-F]{2}")

#: A line of a private key in PEM, wherever its header is.
_LENGTH_OF_LINE = 64
_LINE_OF_KEY = re.compile(
    r"(?<![\w+/-])(?=[A-Z+/\d]*[a-z])(?=[a-z+/\d]*[A-Z])(?=[A-Za-z+/]*\d)[A-Za-z\d+/]{64}(?![\w+/-])"
)

#: What looks like a secret, with what stands in small letters in every text that has one: most texts have none.
_PATTERNS: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    (
        ("private key",),
        re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        HIDDEN,
    ),
    (
        ("cookie",),
        re.compile(r"(?i)\b((?:set-)?cookie['\"]?\s*[:=]\s*(?:b(?=['\"]))?['\"]?)(?!\s)[^\r\n'\"\\]+"),
        rf"\1{HIDDEN}",
    ),
    (
        ("authorization",),
        re.compile(
            r"(?i)\b(authorization['\"]?\s*[:=,]\s*(?:b(?=['\"]))?['\"]?(?:Basic|Negotiate|Digest)\s+)[^\r\n'\\]+"
        ),
        rf"\1{HIDDEN}",
    ),
    (
        ("auth ",),
        re.compile(r"\b(AUTH (?:PLAIN|LOGIN|XOAUTH2) )[A-Za-z0-9+/=]+", re.IGNORECASE),
        rf"\1{HIDDEN}",
    ),
    (("rqm_",), re.compile(r"\brqm_[\w-]{8,}"), HIDDEN),
    (
        ("csrf", "authtoken", "sig"),
        re.compile(
            r"(?i)\b((?:x-)?csrf[-_]?token|authtoken|sig)"
            r"(['\"]?\s*[:=]\s*(?:b(?=['\"]))?['\"]?)(?!\s)[^\s\"',;&)\]}\\]+"
        ),
        rf"\1\2{HIDDEN}",
    ),
    (
        ("bearer", "basic"),
        re.compile(r"\b(Bearer|Basic)((?:\s|%20|\+)+)[^\s\"',;)\]}\\]{8,}", re.IGNORECASE),
        rf"\1\2{HIDDEN}",
    ),
    (
        ("authorization", "client_", "_token", "api", "password"),
        re.compile(
            r"(?i)\b(authorization|client_secret|client_assertion|access_token|refresh_token|api[-_]?key|password)"
            r"(['\"]?\s*[:=]\s*(?:b(?=['\"]))?['\"]?)(?!\s|(?:Bearer|Basic|Negotiate|Digest)\b|\*\*\*)[^\s\"',;&)\]}\\]+"
        ),
        rf"\1\2{HIDDEN}",
    ),
    (("sg.",), re.compile(r"\bSG\.[\w-]{8,}\.[\w-]{8,}"), HIDDEN),
    (("eyj",), re.compile(r"\beyJ[\w-]{5,}(?:\.[\w-]+)*"), HIDDEN),
    (("://",), re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/@:]*:)[^\s/@]+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
)
_IN_ADDRESS = r"[^\s<>\"'(),;:=/\\\[\]{}*|@]"
#: Begins where a word begins, or a long text without an address would be walked once for each of its characters.
_ADDRESS = re.compile(rf"(?<!{_IN_ADDRESS}){_IN_ADDRESS}+(?:@|%40){_IN_ADDRESS}+")


def keep_secret(*values: str | None) -> None:
    """Take these texts out of everything that is scrubbed from now on in this process, however they are written."""
    global _snapshot  # noqa: PLW0603 - what is secret is secret in the whole process, as its log is one
    with _lock:
        added = False
        for value in values:
            if value is None or len(value) < _SHORTEST:
                continue
            for form in _forms(value):
                added |= form not in _known
                _known[form] = None
                _known.move_to_end(form)
        while len(_known) > _MOST:
            _known.popitem(last=False)
        if added:
            _snapshot = tuple(sorted(_known, key=_minus_length))


def scrubbed(text: str) -> str:
    """Answer the text without secrets."""
    # The longest first, as one may hold another; those longer than the text are passed over without a look.
    for secret in _snapshot[bisect_left(_snapshot, -len(text), key=_minus_length) :]:
        if secret in text:
            text = text.replace(secret, HIDDEN) if len(secret) >= _LONG_ENOUGH else _word(secret).sub(HIDDEN, text)
    small = text.lower()
    for marks, pattern, instead in _PATTERNS:
        if any(mark in small for mark in marks):
            text = pattern.sub(instead, text)
    return _LINE_OF_KEY.sub(HIDDEN, text) if len(text) >= _LENGTH_OF_LINE else text


def scrubbed_event(name: str) -> str:
    """Answer what a log line is called: an event name of ours as it is, other text without secrets and addresses."""
    return name if _EVENT_NAME.fullmatch(name) else without_addresses(scrubbed(name))


def without_addresses(text: str) -> str:
    """Answer the text with ``<address>`` for every mail address."""
    return _ADDRESS.sub("<address>", text) if "@" in text or "%40" in text else text


def scrubbed_value(value: Any) -> Any:
    """Answer a value of any kind without secrets and mail addresses; what is no text, number or collection as text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return without_addresses(scrubbed(value))
    if isinstance(value, dict):
        return {scrubbed_value(key): scrubbed_value(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [scrubbed_value(item) for item in value]
    return without_addresses(scrubbed(repr(value)))


def _forms(secret: str) -> set[str]:
    """Answer how a secret may stand in a text: quoted, URL-encoded, in base64; of one with many lines each line."""
    forms = {secret, repr(secret)[1:-1], json.dumps(secret)[1:-1], json.dumps(secret, ensure_ascii=False)[1:-1]}
    for safe in ("", "/"):
        encoded = quote(secret, safe=safe)
        forms |= {encoded, _HEX.sub(lambda found: found[0].lower(), encoded)}
    forms.add(quote_plus(secret))
    lines = secret.splitlines()
    if len(lines) > 1:
        forms |= {line.strip() for line in lines if len(line.strip()) >= _LONG_ENOUGH and "-----" not in line}
        return forms
    given = secret.encode("utf-8", "surrogatepass")
    for before in range(3):  # of what stands before it in the same base64, as a name does in Basic and AUTH PLAIN
        # Only the letters that nothing but the secret decides.
        first, last = (0, 2, 3)[before], (before + len(given)) * 8 // 6
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            form = encode(bytes(before) + given).decode()[first:last]
            if len(form) >= _SHORTEST:
                forms.add(form)
    return forms


def _word(secret: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)")


def _minus_length(secret: str) -> int:
    return -len(secret)
