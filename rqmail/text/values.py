"""Values as people paste and mount them: freed of what clings to their edges, refused where something unfit is inside.

The checks raise ``ValueError`` with what is allowed, and never repeat the value: it may be a secret.
"""

from __future__ import annotations

import re
import unicodedata

#: Quotation marks that are taken off when they stand around a whole value.
_PAIRS = {'"': '"', "'": "'", "\u201c": "\u201d", "\u2018": "\u2019", "\u201e": "\u201c", "\u00ab": "\u00bb"}

#: Unicode's categories of control, format, separator and lone surrogate characters: none of them is seen on a screen.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Zs"})

_GUID = re.compile(r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")
_DOMAIN = re.compile(
    r"(?=.{4,253}\Z)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.)+[A-Za-z][A-Za-z0-9-]{0,61}[A-Za-z0-9]"
)

GUID_ALLOWED = "a GUID such as 11111111-2222-3333-4444-555555555555"
ENTRA_TENANT_ALLOWED = f"{GUID_ALLOWED}, or a domain such as contoso.onmicrosoft.com"
SECRET_ALLOWED = "letters, digits and signs of ASCII, without blanks"  # noqa: S105 - what is allowed, not a secret


def trimmed(text: str) -> str:
    """Answer the text without white space, line ends, byte order marks, invisible characters and quotes around it."""
    before = None
    while before != text:
        before = text
        text = without_unseen_edges(text)
        if len(text) > 1 and _PAIRS.get(text[0]) == text[-1]:
            text = text[1:-1]
    return text


def without_unseen_edges(text: str) -> str:
    """Answer the text without white space (all that JavaScript's trim() takes) and invisible characters around it."""
    start, end = 0, len(text)
    while start < end and unicodedata.category(text[start]) in _UNSEEN:
        start += 1
    while end > start and unicodedata.category(text[end - 1]) in _UNSEEN:
        end -= 1
    return text[start:end]


def first_unseen(text: str) -> str | None:
    """Answer the first white space, control or invisible character of the text, if there is one."""
    return next((c for c in text if unicodedata.category(c) in _UNSEEN), None)


def character_name(character: str) -> str:
    """Name a character that cannot be seen: ``U+200B ZERO WIDTH SPACE``."""
    return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()


def checked_guid(text: str) -> str:
    """Answer a GUID, or raise ``ValueError``."""
    if not _GUID.fullmatch(text):
        raise ValueError(_with_culprit(GUID_ALLOWED, text, _first_not_visible_ascii(text)))
    return text


def checked_entra_tenant(text: str) -> str:
    """Answer an Entra tenant, a GUID or a domain, or raise ``ValueError``."""
    if not _GUID.fullmatch(text) and not _DOMAIN.fullmatch(text):
        raise ValueError(_with_culprit(ENTRA_TENANT_ALLOWED, text, _first_not_visible_ascii(text)))
    return text


def checked_secret(text: str) -> str:
    """Answer a secret that can travel in a header, or raise ``ValueError`` without repeating it."""
    culprit = _first_not_visible_ascii(text)
    if culprit is not None:
        raise ValueError(_with_culprit(SECRET_ALLOWED, text, culprit))
    return text


def checked_line(text: str, allowed: str) -> str:
    """Answer a text of visible characters and ordinary blanks, or raise ``ValueError``."""
    culprit = next((c for c in text if c != " " and unicodedata.category(c) in _UNSEEN), None)
    if culprit is not None:
        raise ValueError(_with_culprit(allowed, text, culprit))
    return text


def checked_address(text: str, allowed: str) -> str:
    """Answer a URL in ASCII without blanks, or raise ``ValueError``."""
    culprit = _first_not_visible_ascii(text)
    if culprit is not None:
        raise ValueError(_with_culprit(allowed, text, culprit))
    return text


def _first_not_visible_ascii(text: str) -> str | None:
    return next((c for c in text if not "!" <= c <= "~"), None)


def _with_culprit(allowed: str, text: str, culprit: str | None) -> str:
    if culprit is None:
        return allowed
    return f"{allowed}; character {text.index(culprit) + 1} is {character_name(culprit)}"
