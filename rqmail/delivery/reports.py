"""Non-delivery reports as mail servers write them (RFC 3464): who did not get which mail, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message as Part
from email.parser import HeaderParser

from rqmail.text.scrubbing import scrubbed_start

#: Bytes of a report that are read, recipients and parts of it that are looked at.
MAX_BYTES = 2 * 1024 * 1024
_MOST_RECIPIENTS = 1_000
_MOST_PARTS = 100

_LONGEST_TEXT = 500
_LONGEST_HEADER = 998

_STATUS = re.compile(r"(?<![\d.])([245]\.\d{1,3}\.\d{1,3})(?![\d.])")
_ADDRESS = re.compile(r"[^\s<>;,()\"]{1,64}@[^\s<>;,()\"]{1,255}")
_BLANK = re.compile(r"[\s\x00-\x1f\x7f]+")
_UNSPECIFIC = re.compile(r"[245]\.0\.0")

#: What has happened to a recipient for good; ``delayed`` is tried again, ``delivered`` and ``relayed`` are well.
_FAILED = "failed"

_ORIGINALS = frozenset({"message/rfc822", "text/rfc822-headers", "message/rfc822-headers", "message/global"})
_STATUSES = frozenset({"message/delivery-status", "message/global-delivery-status"})


@dataclass(frozen=True, slots=True)
class Failure:
    """One recipient who did not get a mail: under ``addresses`` (as addressed first), with its status and why."""

    addresses: tuple[str, ...]
    code: str
    text: str


@dataclass(frozen=True, slots=True)
class Report:
    """What a report says of one mail; what it does not say of that mail is ``None``. ``about`` is its own subject."""

    failures: tuple[Failure, ...]
    message_id: str | None = None
    internet_message_id: str | None = None
    subject: str | None = None
    about: str | None = None


def read_report(source: bytes) -> Report | None:
    """Read a report; ``None`` for anything that tells of no failure: a delay, a receipt, an answer by itself.

    The language of its text does not matter. Takes time in proportion to its size, which is bounded.
    """
    try:
        mail = message_from_bytes(source[:MAX_BYTES], policy=policy.compat32)
        parts = list(_parts(mail))
        failures = _failures(parts) or _named_in_header(mail, parts)
        if not failures:
            return None
        original = _original(parts)
    except (MessageError, ValueError, LookupError, RecursionError):
        return None
    if original is None:
        return Report(failures, about=_header(mail, "subject"))
    return Report(
        failures,
        _header(original, "x-rqmail-id"),
        _header(original, "message-id"),
        _header(original, "subject"),
        _header(mail, "subject"),
    )


def _parts(mail: Part) -> Iterator[Part]:
    """Walk the parts of a report, not those of the mail it returns."""
    waiting = [mail]
    for _ in range(_MOST_PARTS):
        if not waiting:
            return
        part = waiting.pop(0)
        yield part
        inside = part.get_payload() if part.get_content_maintype() == "multipart" else None
        if isinstance(inside, list):
            waiting += [one for one in inside if isinstance(one, Part)]


def _failures(parts: Sequence[Part]) -> tuple[Failure, ...]:
    found: list[Failure] = []
    for part in parts:
        if part.get_content_type() not in _STATUSES:
            continue
        for group in _groups(part)[:_MOST_RECIPIENTS]:
            failure = _failure(group)
            if failure is not None:
                found.append(failure)
    return tuple(found)


def _groups(part: Part) -> list[Part]:
    """Answer the groups of fields of a status part; the first tells of the report itself and names no recipient."""
    payload = part.get_payload()
    if not isinstance(payload, list):
        return _blocks(_text(part))
    groups = [one for one in payload if isinstance(one, Part)]
    if part.get_content_type() == "message/delivery-status":
        return groups
    # The library knows groups of that type alone: what follows the first is the body of a mail to it.
    return [*groups, *(block for one in groups for block in _blocks(_text(one)))]


def _blocks(text: str) -> list[Part]:
    blocks = re.split(r"\r?\n[ \t]*\r?\n", text)
    return [HeaderParser().parsestr(block.strip()) for block in blocks if block.strip()]


def _failure(group: Part) -> Failure | None:
    addresses = [_address_of(_header(group, name)) for name in ("original-recipient", "final-recipient")]
    named = tuple(dict.fromkeys(address for address in addresses if address is not None))
    status = _STATUS.search(_header(group, "status") or "")
    action = (_header(group, "action") or "").partition("(")[0].strip().lower()
    if not named or (action != _FAILED if action else status is None or not status[1].startswith("5")):
        return None
    told = (_header(group, "diagnostic-code") or "").strip()
    kind, semicolon, rest = told.partition(";")
    told = rest if semicolon and " " not in kind.strip() else told
    return Failure(named, _code(status[1] if status else "5.0.0", told), _plain(told))


def _named_in_header(mail: Part, parts: Sequence[Part]) -> tuple[Failure, ...]:
    """Read what Exim and others write without a status part: who failed in a header, why in the text."""
    named = _ADDRESS.findall(_header(mail, "x-failed-recipients") or "")
    if not named:
        return ()
    text = next((_text(part) for part in parts if part.get_content_type() == "text/plain"), "")
    code = _code("5.0.0", text)
    if code.startswith(("2", "4")):
        return ()
    line = next((line for line in text.splitlines() if _STATUS.search(line)), "")
    return tuple(Failure((address,), code, _plain(line)) for address in named[:_MOST_RECIPIENTS])


def _code(status: str, told: str) -> str:
    """Prefer what the failing server said itself where the report has no more than a class."""
    exactly = _STATUS.search(told)
    return exactly[1] if exactly and _UNSPECIFIC.fullmatch(status) else status


def _original(parts: Sequence[Part]) -> Part | None:
    for part in parts:
        if part.get_content_type() not in _ORIGINALS:
            continue
        inside = part.get_payload()
        if isinstance(inside, list):
            return inside[0] if inside and isinstance(inside[0], Part) else None
        return HeaderParser().parsestr(_text(part).lstrip())
    return None


def _text(part: Part) -> str:
    decoded = part.get_payload(decode=True)
    if not isinstance(decoded, bytes):
        return ""
    try:
        return decoded.decode(part.get_content_charset() or "utf-8", "replace")
    except LookupError:
        return decoded.decode("utf-8", "replace")


def _address_of(field: str | None) -> str | None:
    """Read ``rfc822; jan@x.nl`` and its like."""
    found = _ADDRESS.search((field or "").partition(";")[2] or field or "")
    return found[0].rstrip(".") if found else None


def _header(part: Part, name: str) -> str | None:
    value = next((value for given, value in part.raw_items() if given.lower() == name), None)
    if value is None:
        return None
    text = str(value)[:_LONGEST_HEADER].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    try:
        return _BLANK.sub(" ", str(make_header(decode_header(text)))).strip()
    except (MessageError, ValueError, LookupError):
        return _BLANK.sub(" ", text).strip()


def _plain(text: str) -> str:
    return scrubbed_start(_BLANK.sub(" ", text).strip(), _LONGEST_TEXT)
