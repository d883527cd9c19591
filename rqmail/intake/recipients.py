"""Who a message goes to: addresses of to, cc and bcc together, each person once, in a bounded number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from rqmail.errors import InvalidInputError
from rqmail.intake.addresses import MAX_ADDRESSES, parse_addresses
from rqmail.models.message import NewRecipient, RecipientKind
from rqmail.text.addresses import same_person

#: Exchange refuses a message to more than this by default, after it has said 202.
MAX_RECIPIENTS = 500

Lines = str | Sequence[str]


@dataclass(frozen=True, slots=True)
class Folded:
    """An address that was named more than once: where it was kept, and where it was left out."""

    address: str
    kept: str
    left_out: str


def recipients_of(
    to: Lines, cc: Lines, bcc: Lines, *, ascii_only: bool = False
) -> tuple[tuple[NewRecipient, ...], tuple[Folded, ...]]:
    """Answer the recipients, each address once, and what was folded; raises ``InvalidInputError`` naming the field.

    To wins over cc over bcc, and a name over none; addresses are the same in any case of their letters. With
    ``ascii_only`` an address whose local part needs more than ASCII is refused.
    """
    named = [*_parsed(RecipientKind.TO, to), *_parsed(RecipientKind.CC, cc), *_parsed(RecipientKind.BCC, bcc)]
    if not named:
        raise InvalidInputError("to", to or "", "at least one recipient in to, cc or bcc")
    kept, folded = (named, []) if len(named) == 1 else _each_once(named)
    if len(kept) > MAX_RECIPIENTS:
        raise InvalidInputError("to", len(kept), f"at most {MAX_RECIPIENTS} recipients in to, cc and bcc together")
    if ascii_only:
        for recipient in kept:
            if not recipient.address.isascii() and not recipient.address.rpartition("@")[0].isascii():
                raise InvalidInputError(
                    recipient.kind.value,
                    recipient.address,
                    "letters of ASCII before the @: this sender's mail leaves through SendGrid, which takes no others",
                )
    return tuple(kept), tuple(folded)


def _each_once(named: Sequence[NewRecipient]) -> tuple[list[NewRecipient], list[Folded]]:
    kept: dict[str, NewRecipient] = {}
    folded = []
    for one in named:
        same = same_person(one.address)
        first = kept.setdefault(same, one)
        if first is not one:
            folded.append(Folded(first.address, first.kind.value, one.kind.value))
            if one.name and not first.name:
                kept[same] = replace(first, name=one.name)
    return list(kept.values()), folded


def _parsed(kind: RecipientKind, lines: Lines) -> list[NewRecipient]:
    field = kind.value
    if isinstance(lines, str):
        lines = (lines,)
    elif not isinstance(lines, Sequence):
        raise InvalidInputError(field, lines, "mail addresses as text")
    found: list[NewRecipient] = []
    for line in lines:
        if not isinstance(line, str):
            raise InvalidInputError(field, line, "mail addresses as text")
        found += [NewRecipient(kind, to.address, to.name) for to in parse_addresses(line, field)]
        if len(found) > MAX_ADDRESSES:
            raise InvalidInputError(field, f"more than {MAX_ADDRESSES:,} addresses", f"at most {MAX_ADDRESSES:,}")
    return found
