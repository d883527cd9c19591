"""The states of a message, and from which to which it may move."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum


class MessageStatus(StrEnum):
    """Where a message is on its way."""

    SCHEDULED = "SCHEDULED"
    QUEUED = "QUEUED"
    SENDING = "SENDING"
    SENT = "SENT"
    ERROR = "ERROR"
    UNKNOWN = "UNKNOWN"
    CANCELLED = "CANCELLED"
    EXPIRED = "EXPIRED"


_S = MessageStatus

#: For each state, the states it may be entered from. SENT is entered from wherever a late acceptance finds the message:
#: whatever was assumed meanwhile, the provider took it. A new message starts SCHEDULED. UNKNOWN is entered from what
#: waits only where a restored backup says that it waits.
ENTERED_FROM: dict[MessageStatus, frozenset[MessageStatus]] = {
    _S.SCHEDULED: frozenset({_S.QUEUED, _S.SENDING, _S.UNKNOWN, _S.ERROR, _S.CANCELLED, _S.EXPIRED}),
    _S.QUEUED: frozenset({_S.SCHEDULED}),
    _S.SENDING: frozenset({_S.QUEUED}),
    _S.SENT: frozenset({_S.SENDING, _S.UNKNOWN, _S.SCHEDULED, _S.QUEUED}),
    _S.ERROR: frozenset({_S.SENDING, _S.UNKNOWN}),
    _S.UNKNOWN: frozenset({_S.SENDING, _S.SCHEDULED, _S.QUEUED}),
    _S.CANCELLED: frozenset({_S.SCHEDULED, _S.QUEUED, _S.UNKNOWN}),
    _S.EXPIRED: frozenset({_S.SCHEDULED, _S.QUEUED}),
}

#: Nothing happens to a message in one of these unless a person asks.
FINAL = frozenset({_S.SENT, _S.ERROR, _S.CANCELLED, _S.EXPIRED})


class _Names(dict[frozenset[MessageStatus], str]):
    """States as an SQL list of texts, each list written once."""

    def __missing__(self, states: frozenset[MessageStatus]) -> str:
        written = self[states] = ", ".join(f"'{name}'" for name in names(states)) or "NULL"
        return written


#: For a set of states, how SQL writes it.
IN = _Names()


def names(states: Iterable[MessageStatus]) -> list[str]:
    """Write states as they are stored, in a fixed order."""
    return sorted(state.value for state in states)
