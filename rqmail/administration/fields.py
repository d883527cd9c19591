"""What the fields of a mailbox or a tenant may hold; everything else is refused by name."""

from __future__ import annotations

import re
from collections.abc import Callable
from enum import Enum
from typing import Final, get_args

from rqmail.errors import ConflictError, InvalidInputError
from rqmail.models import campaigns, counts
from rqmail.models.mailbox import Provider, SentItems
from rqmail.ratelimit.pacing import Pacing
from rqmail.text import values
from rqmail.text.scrubbing import scrubbed_start
from rqmail.text.values import trimmed

_KEY = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9])?")
_KEY_ALLOWED = "1 to 64 letters, digits, dots, hyphens and underscores, beginning and ending with a letter or digit"

#: The largest limit that can be stored.
MAX_LIMIT = 2**31 - 1


#: Copies that are pruned go within this many days.
MAX_PRUNE_DAYS = 3650

#: The most that a mailbox may be allowed for one message.
MAX_MESSAGE_BYTES = 1_000_000_000


class Unset(Enum):
    """The type of :data:`UNSET`."""

    UNSET = "unset"


#: What a field that was left out holds: it keeps its stored value, where ``None`` clears it.
UNSET: Final = Unset.UNSET


def checked_key(key: str) -> str:
    """Answer a mailbox's or tenant's key, or refuse it."""
    if not isinstance(key, str) or not _KEY.fullmatch(key):
        raise InvalidInputError("key", key, _KEY_ALLOWED)
    return key


def checked_limit(field: str, value: int | None) -> int | None:
    """Answer a limit, ``None`` for the default, or refuse it."""
    # Not isinstance: True is an int to Python, and no limit to anyone.
    if value is None or (type(value) is int and 0 < value <= MAX_LIMIT):
        return value
    if type(value) is int and value > MAX_LIMIT:
        raise InvalidInputError(field, value, f"a positive whole number, at most {MAX_LIMIT:,}")
    raise InvalidInputError(field, value, "a positive whole number, or nothing for the default")


def checked_message_bytes(value: int | None) -> int | None:
    """Answer how many bytes one message may have as it is sent, ``None`` for the default, or refuse it."""
    if value is None or (type(value) is int and 0 < value <= MAX_MESSAGE_BYTES):
        return value
    allowed = f"a positive whole number, at most {MAX_MESSAGE_BYTES:,}, or nothing for the default"
    raise InvalidInputError("maxMessageBytes", value, allowed)


def checked_pacing(value: str | None) -> str | None:
    """Answer how a mailbox's minute is given out, ``None`` for the default, or refuse it."""
    if value is not None and value not in get_args(Pacing):
        raise InvalidInputError("pacing", value, f"{' or '.join(get_args(Pacing))}, or nothing for the default")
    return value


def checked_sent_items(value: str | None) -> str | None:
    """Answer what becomes of copies in Sent Items, ``None`` for the default, or refuse it."""
    known = [one.value for one in SentItems]
    if value is not None and value not in known:
        raise InvalidInputError("sentItems", value, f"{', '.join(known)}, or nothing for the default (keep)")
    return value


def checked_prune_days(sent_items: str | None, days: int | None) -> int | None:
    """Answer after how many days copies are pruned, or refuse it: they have to be given where that is wanted."""
    allowed = f"a whole number of days from 1 to {MAX_PRUNE_DAYS:,}"
    if days is not None and (type(days) is not int or not 1 <= days <= MAX_PRUNE_DAYS):
        raise InvalidInputError("pruneAfterDays", days, allowed)
    if sent_items == SentItems.PRUNE.value and days is None:
        raise InvalidInputError("pruneAfterDays", days, f"{allowed}, where Sent Items are pruned")
    return days


def checked_provider(value: str | int | None) -> str:
    """Answer a provider's name, or refuse it."""
    if value not in {provider.value for provider in Provider}:
        raise InvalidInputError("provider", value, ", ".join(provider.value for provider in Provider))
    return str(value)


def checked_text(field: str, value: object) -> str:
    """Answer a text, or refuse what is none."""
    if not isinstance(value, str):
        raise InvalidInputError(field, value, "text")
    return value


def checked_secret(field: str, value: object, longest: int) -> str:
    """Answer a secret that can travel in a header, or refuse it without repeating it."""
    text = trimmed(checked_text(field, value))
    try:
        if 0 < len(text) <= longest:
            return values.checked_secret(text)
    except ValueError as allowed:
        raise InvalidInputError(field, "***", str(allowed)) from None
    raise InvalidInputError(field, "***", f"1 to {longest} {values.SECRET_ALLOWED}")


def checked_guid(field: str, value: object) -> str:
    """Answer a GUID, or refuse what is none."""
    return _checked_id(field, value, values.checked_guid)


def checked_entra_tenant(field: str, value: object) -> str:
    """Answer an Entra tenant, a GUID or a domain, or refuse what is neither."""
    return _checked_id(field, value, values.checked_entra_tenant)


def _checked_id(field: str, value: object, check: Callable[[str], str]) -> str:
    text = trimmed(checked_text(field, value))
    try:
        return check(text)
    except ValueError as allowed:
        raise InvalidInputError(field, scrubbed_start(text, 100), str(allowed)) from None


def refuse_while_open(sender: str) -> None:
    """Raise ``ConflictError`` while the sender has mail that waits, is being sent or needs a decision."""
    waiting = counts.open_messages(sender)
    if waiting:
        raise ConflictError(f"{sender} has mail that waits, is being sent or needs a decision: {waiting} in all")
    for name in campaigns.open_with(sender):
        raise ConflictError(f"{sender} sends for campaign {name!r}: take it out of the pool first, or end the campaign")
