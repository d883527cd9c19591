"""Keeps secrets and mail addresses out of whatever is written for people to read: logs, error texts, pages.

What is secret is said once, with :func:`keep_secret`, by whoever reads it; :func:`scrubbed` then takes it out of any
text, together with what looks like a secret (tokens in headers, keys, passwords in URLs) and, on request, addresses.
"""

from __future__ import annotations

import base64
import html
import json
import re
import threading
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Iterable
from typing import Any
from urllib.parse import quote, quote_plus

HIDDEN = "***"

#: Shorter ones would take ordinary words out of every text; a word of this length is taken out as a whole word only.
_SHORTEST, _LONG_ENOUGH = 6, 12

#: Forms of passing secrets kept at most: the tokens of the last hours.
_MOST_PASSING = 20_000

#: What is cut is looked at so far beyond the cut; no form of a secret is longer.
_LONGEST = 16 * 1024

_lasting: set[str] = set()
_passing: OrderedDict[str, None] = OrderedDict()
_snapshot: tuple[str, ...] = ()
_lock = threading.Lock()

#: An event name of ours: never scrubbed, or a database whose password is ``mail`` would rename half of them.
_EVENT_NAME = re.compile(r"[a-z]+(?:\.[A-Za-z]+)+")

#: A field of such a name holds a secret, whatever it is.
_SECRET_NAME = re.compile(
    r"(?i)(?:password|passwd|pwd|passphrase|secret(?:[-_]?key)?|token|api[-_]?key|private[-_]?key|authorization|cookie"
    r"|client_assertion)\Z"
)

#: How JSON within a page of HTML writes these.
_IN_SCRIPT = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "'": "\\u0027"}

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
        ("authorization", "client_", "_token", "api", "passw", "pwd", "passphrase"),
        re.compile(
            r"(?i)\b(authorization|client_secret|client_assertion|access_token|refresh_token|api[-_]?key|password|passwd|pwd"
            r"|passphrase)"
            r"(['\"]?\s*[:=]\s*(?:b(?=['\"]))?['\"]?)(?!\s|(?:Bearer|Basic|Negotiate|Digest)\b|\*\*\*)[^\s\"',;&)\]}\\]+"
        ),
        rf"\1\2{HIDDEN}",
    ),
    (("sg.",), re.compile(r"\bSG\.[\w-]{8,}\.[\w-]{8,}"), HIDDEN),
    (("eyj",), re.compile(r"\beyJ[\w-]{5,}(?:\.[\w-]+)*"), HIDDEN),
    (("://",), re.compile(r"(\b[a-z][a-z0-9+.-]{0,20}://[^\s/@:]*:)[^\s/@]+@", re.IGNORECASE), rf"\1{HIDDEN}@"),
)
#: What ends the name of a secret, and how quotes may be written around it: in JSON within JSON, in HTML, in a URL.
_NAMED = (
    r"(?i)(password|passwd|pwd|passphrase|secret(?:[-_]?key)?|token|(?:api|private|account)[-_]?key|assertion"
    r"|credential)"
)
_QUOTED_AS = r"\\*[\"']|&quot;|&\#(?:34|39|x27);|%2[27]"
_NAMED_SECRET = re.compile(
    rf"{_NAMED}({_QUOTED_AS})?(\s{{0,3}}(?:[:=]|%3[AaDd])\s{{0,3}}b?)"
    rf"(?:(?P<quote>{_QUOTED_AS})(?P<inside>(?:(?!(?P=quote))[^\r\n])+)|(?P<bare>[^\s\"'`,;&()\[\]{{}}\\<>*]+))"
)
_MARKS_OF_NAMES = (
    "passw",
    "pwd",
    "passphrase",
    "secret",
    "token",
    "api",
    "private",
    "account",
    "assertion",
    "credential",
)

_ANY_MARK = re.compile(
    "|".join(map(re.escape, {*_MARKS_OF_NAMES, *(mark for marks, _, _ in _PATTERNS for mark in marks)}))
)

#: After a name that ordinary text has as well, only what looks like this is taken for a secret.
_RANDOM = re.compile(r"(?=.*[A-Za-z])(?=.*[0-9])[!-~]{8,}\Z")
_NO_SECRETS = frozenset({"none", "null", "true", "false"})

_IN_ADDRESS = r"[^\s<>\"'(),;:=/\\\[\]{}*|@]"
#: Begins where a word begins, or a long text without an address would be walked once for each of its characters.
_APOSTROPHE = r"(?<=[A-Za-z])(?<!\b[bBrRuUfF])'(?=\w)"  # as in o'brien, and not as in b'jan'
_DOMAIN = rf"(?:{_IN_ADDRESS}+|\[[\w.:]{{3,80}}\])"
_ADDRESS = re.compile(rf"(?<!{_IN_ADDRESS}){_IN_ADDRESS}+(?:{_APOSTROPHE}{_IN_ADDRESS}+){{0,3}}(?:@|%40){_DOMAIN}")
#: One whose local part is in quotes, which may be written in a text in quotes or in HTML.
_QUOTE = r"(?:\\?\"|&quot;|&#34;)"
_QUOTED_ADDRESS = re.compile(rf"{_QUOTE}(?:\\.|[^\"\\\r\n]){{1,80}}?{_QUOTE}(?:@|%40){_DOMAIN}")


def keep_secret(*values: str | None) -> None:
    """Take these texts out of everything that is scrubbed in this process from now on, however they are written."""
    with _lock:
        known = len(_lasting)
        _lasting.update(_forms_of(values))
        for value in values:
            if value is not None and len(value) >= _SHORTEST:
                given = value.encode("utf-8", "surrogatepass").hex()
                _lasting.update((given, given.upper()))
        if len(_lasting) > known:
            _take_snapshot()


def keep_passing_secret(value: str) -> None:
    """Take a secret that lives for hours, as a token does, out of what is scrubbed until many newer ones have come."""
    with _lock:
        added = False
        for form in _forms_of((value,)):
            added |= form not in _passing
            _passing[form] = None
            _passing.move_to_end(form)
        while len(_passing) > _MOST_PASSING:
            _passing.popitem(last=False)
        if added:
            _take_snapshot()


def _take_snapshot() -> None:
    global _snapshot  # noqa: PLW0603 - what is secret is secret in the whole process, as its log is one
    _snapshot = tuple(sorted({*_lasting, *_passing}, key=_minus_length))


def _forms_of(values: Iterable[str | None]) -> Iterable[str]:
    return (form for value in values if value is not None and len(value) >= _SHORTEST for form in _forms(value))


def scrubbed(text: str) -> str:
    """Answer the text without secrets."""
    # The longest first, as one may hold another; those longer than the text are passed over without a look.
    for secret in _snapshot[bisect_left(_snapshot, -len(text), key=_minus_length) :]:
        if secret in text:
            text = text.replace(secret, HIDDEN) if len(secret) >= _LONG_ENOUGH else _word(secret).sub(HIDDEN, text)
    small = text.lower()
    if len(text) < _LENGTH_OF_LINE and not _ANY_MARK.search(small):  # as nearly every field of a log line
        return text
    if any(mark in small for mark in _MARKS_OF_NAMES):
        text = _NAMED_SECRET.sub(_without_value, text)
    for marks, pattern, instead in _PATTERNS:
        if any(mark in small for mark in marks):
            text = pattern.sub(instead, text)
    return _LINE_OF_KEY.sub(HIDDEN, text) if len(text) >= _LENGTH_OF_LINE else text


def _without_value(found: re.Match[str]) -> str:
    """Answer a name and what follows it without that, where it is a secret and no ordinary text."""
    name, closing, between = found[1], found[2], found[3]
    before = found.string[max(0, found.start() - 1) : found.start()]
    # clientSecret, access_token and ADMIN_TOKEN are names of fields only; token and secret are words as well.
    compound = before.isalnum() or before in {"_", "-"}
    value = found["inside"] or found["bare"]
    if value.startswith(HIDDEN) or value.lower() in _NO_SECRETS:
        return found[0]
    assigned = between.lower() in {"=", "=b", "%3d"} and (compound or before in {"?", "&", "{"} or name.isupper())
    quoted = found["quote"] is not None and (compound or closing is not None or "=" in between)
    if not (assigned or quoted or _RANDOM.match(value)):
        return found[0]
    return f"{found[0][: -len(value)]}{HIDDEN}"


def scrubbed_start(text: str, most: int) -> str:
    """Answer at most the first ``most`` characters of the text without secrets, also those that the cut would halve."""
    if len(text) <= most + 2 * _LONGEST:
        return scrubbed(text)[:most]
    # The end of what is looked at may be half a secret.
    return scrubbed(text[: most + 2 * _LONGEST])[:-_LONGEST][:most]


def scrubbed_event(name: str) -> str:
    """Answer what a log line is called: an event name of ours as it is, other text without secrets and addresses."""
    return name if _EVENT_NAME.fullmatch(name) else without_addresses(scrubbed(name))


def without_addresses(text: str) -> str:
    """Answer the text with ``<address>`` for every mail address."""
    if "@" not in text and "%40" not in text:
        return text
    return _ADDRESS.sub("<address>", _QUOTED_ADDRESS.sub("<address>", text))


def scrubbed_value(value: Any) -> Any:
    """Answer a value of any kind without secrets and mail addresses; what is no text, number or collection as text."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, str):
        return without_addresses(scrubbed(value))
    if isinstance(value, dict):
        return {scrubbed_value(key): scrubbed_field(key, item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [scrubbed_value(item) for item in value]
    return without_addresses(scrubbed(repr(value)))


def scrubbed_field(name: object, value: Any) -> Any:
    """Answer the value of a field without secrets: nothing of it where the name says that it is one."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return HIDDEN if _SECRET_NAME.search(_text_of(name)) else scrubbed_value(value)


def _text_of(name: object) -> str:
    return name.decode("latin-1") if isinstance(name, bytes) else str(name)


def _forms(secret: str) -> set[str]:
    """Answer how a secret may stand in a text: escaped, URL-encoded, in base64 or hexadecimal; of many lines each."""
    forms = _escaped(secret)
    for form in tuple(forms):
        forms |= _escaped(form)  # JSON within JSON, the text of an exception within another's
    for safe in ("", "/"):
        encoded = quote(secret, safe=safe)
        forms |= {encoded, _HEX.sub(lambda found: found[0].lower(), encoded), quote(encoded, safe=safe)}
    forms.add(quote_plus(secret))
    for escaped in (html.escape(secret), html.escape(secret, quote=False)):
        forms |= {escaped, escaped.replace("&#x27;", "&#39;").replace("&quot;", "&#34;")}
    forms.add("".join(_IN_SCRIPT.get(sign, sign) for sign in json.dumps(secret)[1:-1]))
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


def _escaped(text: str) -> set[str]:
    """Answer how JSON and Python write a text: which quotes are escaped depends on what else stands in it."""
    written = repr(text + "\"'")[1:-4]
    raw = repr(text.encode("utf-8", "surrogatepass") + b"\"'")[2:-4]
    forms = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    for one in (written, raw):
        forms |= {one, one.replace("\\'", "'")}
    return forms


def _word(secret: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w){re.escape(secret)}(?!\w)")


def _minus_length(secret: str) -> int:
    return -len(secret)
