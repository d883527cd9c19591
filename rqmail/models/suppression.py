"""Addresses that get no mail: why, since when, from whom, and whether that holds for everybody or for one tenant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import peewee

from rqmail.models.base import BaseModel, UtcDateTimeField, db, is_postgresql, pooled_connection, to_column
from rqmail.models.message import LeftOut, NewRecipient
from rqmail.text.addresses import same_person

#: The scope of an entry that holds for every sender; that of a tenant's own is ``tenant:KEY``.
INSTALLATION = "installation"

#: Addresses that a sentence names at most.
_NAMED = 5

#: Addresses that one statement asks about or writes at most.
_AT_ONCE = 1_000


class Reason(StrEnum):
    """Why an address gets no mail; of two reasons the later one here is kept."""

    UNSUBSCRIBE = "unsubscribe"
    IMPORT = "import"
    MANUAL = "manual"
    COMPLAINT = "complaint"
    HARD_BOUNCE = "hard-bounce"


_RANK = "CASE {} " + " ".join(f"WHEN '{reason}' THEN {rank}" for rank, reason in enumerate(Reason)) + " END"
_HARDER = f"{_RANK.format('excluded.reason')} > {_RANK.format('suppression.reason')}"
_COLUMNS = ("reason", "source", "since")


class Suppression(BaseModel):
    """One address, as :func:`rqmail.text.addresses.same_person` writes it, that gets no mail within ``scope``.

    ``unsubscribed_on`` stays when a harder reason takes the place of an unsubscription.
    """

    address = peewee.CharField(max_length=320)
    scope = peewee.CharField(max_length=80)
    reason = peewee.CharField(max_length=12)
    source = peewee.CharField(max_length=200)
    since = UtcDateTimeField()
    unsubscribed_on = UtcDateTimeField(null=True)

    class Meta:
        """An address stands in a scope once."""

        primary_key = peewee.CompositeKey("address", "scope")


@dataclass(frozen=True, slots=True)
class Entry:
    """An address that gets no mail."""

    address: str
    scope: str
    reason: Reason
    source: str
    since: datetime
    unsubscribed_on: datetime | None = None


def scopes_of(sender: str) -> tuple[str, ...]:
    """Answer the scopes that hold for mail of a sender (``mailbox:KEY``, ``tenant:KEY`` or ``default``)."""
    return (INSTALLATION, sender) if sender.startswith("tenant:") else (INSTALLATION,)


class Standing:
    """What stands against some addresses, asked once for all of them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self._entries: dict[str, list[Entry]] = {}
        for entry in entries:
            self._entries.setdefault(entry.address, []).append(entry)

    def __bool__(self) -> bool:
        return bool(self._entries)

    def split(
        self, recipients: Sequence[NewRecipient], sender: str, *, ignore_unsubscribed: bool
    ) -> tuple[tuple[NewRecipient, ...], tuple[LeftOut, ...]]:
        """Answer to whom of these a mail of ``sender`` may go, and who is left out.

        What somebody unsubscribed from may be ignored, everything else never.
        """
        scopes = scopes_of(sender)
        kept, left_out = [], []
        for to in recipients:
            entry = self._against(to.address, scopes, ignore_unsubscribed=ignore_unsubscribed)
            if entry is None:
                kept.append(to)
            else:
                left_out.append(LeftOut(to.address, entry.reason.value, entry.since))
        return tuple(kept), tuple(left_out)

    def _against(self, address: str, scopes: Sequence[str], *, ignore_unsubscribed: bool) -> Entry | None:
        for entry in self._entries.get(same_person(address), ()):
            ignored = ignore_unsubscribed and entry.reason is Reason.UNSUBSCRIBE
            if entry.scope in scopes and not ignored:
                return entry
        return None


def standing(addresses: Iterable[str]) -> Standing:
    """Look up what stands against these addresses in any scope."""
    return Standing(entries(addresses))


def entries(addresses: Iterable[str]) -> list[Entry]:
    """Answer the entries of these addresses in any scope, an index seek each."""
    found: list[Entry] = []
    wanted = list({same_person(address) for address in addresses})
    with pooled_connection():
        for start in range(0, len(wanted), _AT_ONCE):
            part = wanted[start : start + _AT_ONCE]
            if is_postgresql():
                condition, values = f"address = ANY({db.param}::text[])", [part]
            else:
                condition, values = f"address IN ({', '.join([db.param] * len(part))})", part  # type: ignore[assignment]
            sql = (
                "SELECT address, scope, reason, source, since, unsubscribed_on FROM suppression"  # noqa: S608 - placeholders
                f" WHERE {condition} ORDER BY address, scope"
            )
            found += [_entry(*row) for row in db.execute_sql(sql, values).fetchall()]
    return found


def suppressed_among(addresses: Iterable[str]) -> set[str]:
    """Answer which of these get no mail of any mailbox, as :func:`rqmail.text.addresses.same_person` writes them."""
    return {entry.address for entry in entries(addresses) if entry.scope == INSTALLATION}


def told(left_out: Sequence[LeftOut]) -> str:
    """Say in words who was left out, and why."""
    named = ", ".join(f"{one.address} ({one.reason} since {one.since:%Y-%m-%d})" for one in left_out[:_NAMED])
    return named + (f" and {len(left_out) - _NAMED:,} more" if len(left_out) > _NAMED else "")


def keep(new: Sequence[Entry]) -> int:
    """Write entries down, and answer how many of them are new or have a harder reason than before.

    An address that is there for a reason as hard stays as it is; that somebody unsubscribed is never forgotten for a
    harder reason.
    """
    changed = 0
    once = {(entry.address, entry.scope): entry for entry in sorted(new, key=lambda one: _rank(one.reason))}
    with pooled_connection():
        rows = list(once.values())
        for start in range(0, len(rows), _AT_ONCE):
            part = rows[start : start + _AT_ONCE]
            one = "(" + ", ".join([db.param] * 6) + ")"
            sets = ", ".join(
                f"{name} = CASE WHEN {_HARDER} THEN excluded.{name} ELSE suppression.{name} END" for name in _COLUMNS
            )
            sql = (
                "INSERT INTO suppression (address, scope, reason, source, since, unsubscribed_on)"  # noqa: S608 - placeholders
                f" VALUES {', '.join([one] * len(part))} ON CONFLICT (address, scope) DO UPDATE SET {sets},"
                " unsubscribed_on = COALESCE(suppression.unsubscribed_on, excluded.unsubscribed_on)"
                f" WHERE {_HARDER} OR (suppression.unsubscribed_on IS NULL AND excluded.unsubscribed_on IS NOT NULL)"
                " RETURNING address"
            )
            changed += len(db.execute_sql(sql, [value for entry in part for value in _values(entry)]).fetchall())
    return changed


def remove(address: str, scope: str) -> Entry | None:
    """Let an address get mail again within ``scope``, and answer what stood against it."""
    with pooled_connection():
        sql = (
            f"DELETE FROM suppression WHERE address = {db.param} AND scope = {db.param}"  # noqa: S608 - placeholders
            " RETURNING address, scope, reason, source, since, unsubscribed_on"
        )
        row = db.execute_sql(sql, (address, scope)).fetchone()
    return None if row is None else _entry(*row)


def listed(
    *,
    search: str = "",
    scope: str | None = None,
    reason: Reason | None = None,
    limit: int = 50,
    after: tuple[str, str] | None = None,
) -> list[Entry]:
    """List entries by address; ``search`` is a part of it, ``after`` the address and scope of the last one seen."""
    wanted = Suppression.select().order_by(Suppression.address, Suppression.scope).limit(limit)
    if search:
        wanted = wanted.where(Suppression.address.contains(search))
    if scope is not None:
        wanted = wanted.where(Suppression.scope == scope)
    if reason is not None:
        wanted = wanted.where(Suppression.reason == reason.value)
    if after is not None:
        wanted = wanted.where(_after(*after))
    with pooled_connection():
        return [
            _entry(row.address, row.scope, row.reason, row.source, row.since, row.unsubscribed_on) for row in wanted
        ]


def _after(address: str, scope: str) -> peewee.Expression:
    later: peewee.Expression = (Suppression.address > address) | (
        (Suppression.address == address) & (Suppression.scope > scope)
    )
    return later


def _rank(reason: Reason) -> int:
    return list(Reason).index(reason)


def _values(entry: Entry) -> list[Any]:
    unsubscribed_on = entry.unsubscribed_on or (entry.since if entry.reason is Reason.UNSUBSCRIBE else None)
    return [
        entry.address,
        entry.scope,
        entry.reason.value,
        entry.source[:200],
        to_column(entry.since),
        None if unsubscribed_on is None else to_column(unsubscribed_on),
    ]


def _entry(address: str, scope: str, reason: str, source: str, since: Any, unsubscribed_on: Any) -> Entry:
    read: Any = Suppression.since.python_value
    known = Reason(reason) if reason in set(Reason) else Reason.MANUAL  # a row that was edited by hand still suppresses
    return Entry(address, scope, known, source, read(since), read(unsubscribed_on))
