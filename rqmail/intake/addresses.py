"""Mail addresses as people type and paste them: checked, normalised, split into address and name, in linear time."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from email_validator import EmailNotValidError, validate_email
from email_validator.rfc_constants import CASE_INSENSITIVE_MAILBOX_NAMES

from rqmail.errors import InvalidInputError
from rqmail.mailers.base import Address
from rqmail.text.scrubbing import scrubbed
from rqmail.text.values import character_name, first_unseen, without_unseen_edges

MAX_NAME_LENGTH = 256

#: One line of addresses may be so long and hold so many, whatever becomes of them later.
MAX_LINE_LENGTH = 200_000
MAX_ADDRESSES = 1_000

#: A local part that email-validator accepts as it stands: most of what is ever imported, recognised far faster.
_PLAIN_LOCAL = re.compile(r"[a-z0-9_]+(?:[.+-][a-z0-9_]+)*", re.ASCII | re.IGNORECASE)
_MAX_LOCAL = 64
_MAX_ADDRESS = 254
#: Longer than any address can be before its domain is normalised: not worth a closer look.
_MAX_TYPED = 1_000

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_SEPARATOR = re.compile(r'[,;<>"\\]')
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_QUOTE_OR_ESCAPE = re.compile(r'["\\]')


def check_address(text: str, field: str) -> str:
    """Answer the address as it is stored; raises ``InvalidInputError`` naming ``field`` if it is none.

    What cannot be seen is taken off its edges, and named where it stands inside. The syntax is checked, never the
    network. Names reserved for tests (``.test``) are allowed.
    """
    text = without_unseen_edges(text)
    local, at, domain = text.rpartition("@")
    if (
        at
        and len(local) <= _MAX_LOCAL
        and len(local) + 1 + len(domain) <= _MAX_ADDRESS
        and _PLAIN_LOCAL.fullmatch(local)
        and local.lower() not in CASE_INSENSITIVE_MAILBOX_NAMES
        and (plain := _plain_domain(domain)) is not None
    ):
        return f"{local}@{plain}"
    unseen = first_unseen(text)
    if unseen is not None:
        position = f"character {text.index(unseen) + 1} is {character_name(unseen)}"
        raise InvalidInputError(field, _beginning(text), f"a mail address without blanks or signs unseen; {position}")
    if len(text) > _MAX_TYPED:
        raise InvalidInputError(field, _beginning(text), f"a mail address of at most {_MAX_ADDRESS} characters")
    try:
        return validate_email(text, check_deliverability=False, test_environment=True, strict=True).normalized
    except EmailNotValidError as error:
        why = _beginning(str(error))
        raise InvalidInputError(field, _beginning(text), f"a mail address such as name@example.com ({why})") from None


def parse_addresses(text: str, field: str) -> tuple[Address, ...]:
    """Split a line of addresses at ``,`` and ``;`` and check each: ``a@x.nl; Jörg Müller <j@y.de>``; empty for none.

    Takes time in proportion to the length of the line, which is bounded.
    """
    if len(text) > MAX_LINE_LENGTH:
        raise InvalidInputError(
            field, f"{len(text):,} characters", f"a line of addresses of at most {MAX_LINE_LENGTH:,} characters"
        )
    if "<" not in text and '"' not in text:
        parts = text.replace(";", ",").split(",") if "," in text or ";" in text else [text]
    else:
        parts = list(_split(text))
    found: list[Address] = []
    for part in parts:
        if part and (typed := without_unseen_edges(part)):
            if len(found) == MAX_ADDRESSES:
                raise InvalidInputError(field, f"more than {MAX_ADDRESSES:,} addresses", f"at most {MAX_ADDRESSES:,}")
            found.append(_parse_one(typed, field))
    return tuple(found)


def _parse_one(text: str, field: str) -> Address:
    """Read ``address``, ``Name <address>`` or ``"Name" <address>``, without anything around it."""
    if not text.endswith(">"):
        return Address(check_address(text, field))
    named = _quoted_name(text) if text.startswith('"') else _bare_name(text)
    if named is None:
        raise InvalidInputError(field, _beginning(text), "one address, or Name <address>, the name in quotes")
    name, address = named
    name = unicodedata.normalize("NFC", without_unseen_edges(name))
    if _CONTROL.search(name) or len(name) > MAX_NAME_LENGTH:
        raise InvalidInputError(field, _beginning(text), f"a name of at most {MAX_NAME_LENGTH} characters on one line")
    return Address(check_address(address, field), name)


def _quoted_name(text: str) -> tuple[str, str] | None:
    """Cut ``"Name" <address>`` at the quote that ends the name."""
    position = 1
    while (sign := _QUOTE_OR_ESCAPE.search(text, position)) is not None and sign[0] == "\\":
        position = sign.end() + 1
    if sign is None:
        return None
    rest = without_unseen_edges(text[sign.end() :])
    if not rest.startswith("<") or not _is_bare(rest[1:-1]):
        return None
    return _ESCAPED.sub(r"\1", text[1 : sign.start()]), rest[1:-1]


def _bare_name(text: str) -> tuple[str, str] | None:
    """Cut ``Name <address>`` at the bracket."""
    name, bracket, address = text[:-1].partition("<")
    return (name, address) if bracket and '"' not in name and ">" not in name and _is_bare(address) else None


def _is_bare(address: str) -> bool:
    return "<" not in address and ">" not in address


def _split(text: str) -> Iterator[str]:
    """Cut at commas and semicolons that stand neither in quotes nor in angle brackets."""
    start = position = 0
    quoted = angled = False
    while (sign := _SEPARATOR.search(text, position)) is not None:
        position = sign.end()
        if quoted:
            if sign[0] == "\\":
                position += 1
            quoted = sign[0] != '"'
        elif sign[0] == '"':
            quoted = True
        elif sign[0] in "<>":
            angled = sign[0] == "<"
        elif sign[0] in ",;" and not angled:
            yield text[start : sign.start()]
            start = position
    yield text[start:]


def _beginning(text: str) -> str:
    text = scrubbed(text)
    return text if len(text) <= 200 else text[:100] + " … " + text[-60:]


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
