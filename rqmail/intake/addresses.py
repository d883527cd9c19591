"""Mail addresses as people type them: checked, normalised, split into address and name."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from email_validator import EmailNotValidError, validate_email
from email_validator.rfc_constants import CASE_INSENSITIVE_MAILBOX_NAMES

from rqmail.errors import InvalidInputError
from rqmail.mailers.base import Address

MAX_NAME_LENGTH = 256

#: A local part that email-validator accepts as it stands: most of what is ever imported, recognised far faster.
_PLAIN_LOCAL = re.compile(r"[a-z0-9_]+(?:[.+-][a-z0-9_]+)*", re.ASCII | re.IGNORECASE)
_MAX_LOCAL = 64
_MAX_ADDRESS = 254

#: ``Name <address>``, the name bare or in double quotes.
_NAMED = re.compile(r'\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^<>"]*?))\s*<(?P<address>[^<>]*)>\s*')
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def check_address(text: str, field: str) -> str:
    """Answer the address as it is stored and sent to; raises ``InvalidInputError`` naming ``field`` if it is none.

    The syntax is checked, never the network. Names reserved for tests (``.test``) are allowed.
    """
    local, at, domain = text.strip().rpartition("@")
    if (
        at
        and len(local) <= _MAX_LOCAL
        and len(local) + 1 + len(domain) <= _MAX_ADDRESS
        and _PLAIN_LOCAL.fullmatch(local)
        and local.lower() not in CASE_INSENSITIVE_MAILBOX_NAMES
        and (plain := _plain_domain(domain)) is not None
    ):
        return f"{local}@{plain}"
    try:
        return validate_email(text.strip(), check_deliverability=False, test_environment=True, strict=True).normalized
    except EmailNotValidError as error:
        raise InvalidInputError(field, text, f"a mail address such as name@example.com ({error})") from None


def parse_addresses(text: str, field: str) -> tuple[Address, ...]:
    """Split a line of addresses at ``,`` and ``;`` and check each: ``a@x.nl; Jörg Müller <j@y.de>``; empty for none."""
    if "<" not in text and '"' not in text:
        return tuple(
            Address(check_address(part, field))
            for part in text.replace(";", ",").split(",")
            if part and not part.isspace()
        )
    return tuple(_parse_one(part, field) for part in _split(text) if part.strip())


def _parse_one(text: str, field: str) -> Address:
    named = _NAMED.fullmatch(text)
    if named is None:
        return Address(check_address(text, field))
    quoted = named["quoted"]
    name = named["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
    name = unicodedata.normalize("NFC", name.strip())
    if _CONTROL.search(name) or len(name) > MAX_NAME_LENGTH:
        raise InvalidInputError(field, text, f"a name of at most {MAX_NAME_LENGTH} characters on one line")
    return Address(check_address(named["address"], field), name)


def _split(text: str) -> list[str]:
    """Cut at commas and semicolons that stand neither in quotes nor in angle brackets."""
    parts, start, quoted, angled, escaped = [], 0, False, False, False
    for position, character in enumerate(text):
        if escaped:
            escaped = False
        elif quoted:
            escaped = character == "\\"
            quoted = character != '"'
        elif character == '"':
            quoted = True
        elif character in "<>":
            angled = character == "<"
        elif character in ",;" and not angled:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


@lru_cache(maxsize=50_000)
def _plain_domain(domain: str) -> str | None:
    """Answer a domain as email-validator writes it, ``None`` for one that it must see together with its local part."""
    if not domain.isascii():
        return None
    try:
        checked = validate_email(f"a@{domain}", check_deliverability=False, test_environment=True)
    except EmailNotValidError:
        return None
    return checked.domain
