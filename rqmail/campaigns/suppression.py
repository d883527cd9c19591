"""The suppression list: addresses that get no mail, for the whole installation or for one tenant."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import IO

from rqmail.campaigns.suppression_file import Listed, addresses_of, reason_named
from rqmail.clock import Clock
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.intake.addresses import check_address
from rqmail.models import suppression
from rqmail.models.base import pooled_connection, transaction
from rqmail.models.mailbox import TenantMailSetting
from rqmail.models.suppression import INSTALLATION, Entry, Reason
from rqmail.text.addresses import same_person
from rqmail.text.formulas import harmless

__all__ = ["Reason", "SuppressionImport", "SuppressionRow", "Suppressions"]

#: Entries written in one transaction, and read at once for an export.
_AT_ONCE = 1_000

#: Bad rows of a file that are told one by one.
MAX_ERRORS_TOLD = 1_000


@dataclass(frozen=True, slots=True)
class SuppressionRow:
    """One address that gets no mail: of all senders, or of ``tenant`` alone.

    ``unsubscribed_on`` is when somebody unsubscribed, also where the reason is a harder one by now.
    """

    address: str
    tenant: str | None
    reason: Reason
    source: str
    since: datetime
    unsubscribed_on: datetime | None


@dataclass(frozen=True, slots=True)
class BadAddress:
    """What is wrong in one row of a file."""

    row: int
    field: str
    message: str


@dataclass(frozen=True, slots=True)
class SuppressionImport:
    """What became of a file: nothing is stored when a row is bad; what was ``known`` was so for as hard a reason."""

    rows: int
    added: int
    known: int
    error_count: int
    errors: tuple[BadAddress, ...]


class Suppressions:
    """Keeps who gets no mail."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def add(
        self, address: str, *, tenant: str | None = None, reason: Reason | str = Reason.MANUAL, source: str
    ) -> SuppressionRow:
        """Let an address get no mail from now on, and answer what stands against it by then."""
        kept = same_person(check_address(address, "address"))
        scope = _scope(tenant)
        suppression.keep([Entry(kept, scope, _reason(reason), source, self._clock())])
        return self.get(kept, tenant=tenant)

    def get(self, address: str, *, tenant: str | None = None) -> SuppressionRow:
        """Answer what stands against an address; raises ``NotFoundError`` where nothing does in that scope."""
        kept = same_person(address.strip())
        scope = INSTALLATION if tenant is None else f"tenant:{tenant}"
        found = next((one for one in suppression.entries([kept]) if one.scope == scope), None)
        if found is None:
            raise NotFoundError("suppression", address if tenant is None else f"{address} of tenant {tenant}")
        return _row(found)

    def remove(self, address: str, *, tenant: str | None = None) -> SuppressionRow:
        """Let an address get mail again, and answer what stood against it; raises ``NotFoundError`` if nothing did."""
        scope = INSTALLATION if tenant is None else f"tenant:{tenant}"
        removed = suppression.remove(same_person(address.strip()), scope)
        if removed is None:
            raise NotFoundError("suppression", address if tenant is None else f"{address} of tenant {tenant}")
        return _row(removed)

    def find(
        self,
        *,
        search: str = "",
        tenant: str | None = None,
        reason: Reason | str | None = None,
        limit: int = 50,
        after: str | None = None,
    ) -> list[SuppressionRow]:
        """List entries by address; ``after`` is the :func:`place` of the last one already seen."""
        found = suppression.listed(
            search=same_person(search.strip()) if "@" in search else search.strip().lower(),
            scope=None if tenant is None else f"tenant:{tenant}",
            reason=None if reason is None else _reason(reason),
            limit=limit,
            after=None if after is None else _place(after),
        )
        return [_row(one) for one in found]

    def take(
        self,
        file: IO[bytes],
        *,
        source: str,
        tenant: str | None = None,
        reason: Reason | str = Reason.IMPORT,
        dry_run: bool = False,
    ) -> SuppressionImport:
        """Take every address of a file, all or none; with ``dry_run`` they are only checked and counted."""
        scope, usual, now = _scope(tenant), _reason(reason), self._clock()
        entries: dict[str, Entry] = {}
        errors: list[BadAddress] = []
        rows = wrong = 0
        for found in addresses_of(file):
            rows += 1
            if isinstance(found, Listed):
                entry = Entry(found.address, scope, found.reason or usual, source, found.since or now)
                entries[found.address] = entry
                continue
            wrong += 1
            row, error = found
            if len(errors) < MAX_ERRORS_TOLD:
                errors.append(BadAddress(row, error.field, str(error)))
        if not rows:
            raise InvalidInputError("file", "", "at least one address")
        if wrong:
            return SuppressionImport(rows, 0, 0, wrong, tuple(errors))
        listed = list(entries.values())
        added = self._new(listed) if dry_run else _kept(listed)
        return SuppressionImport(rows, added, rows - added, 0, ())

    def as_csv(self, *, tenant: str | None = None) -> Iterator[str]:
        """Write the list as CSV, as :meth:`take` reads it, a part in memory at a time."""
        yield "address,tenant,reason,source,since\r\n"
        after: str | None = None
        while True:
            part = self.find(tenant=tenant, limit=_AT_ONCE, after=after)
            text = io.StringIO()
            writer = csv.writer(text)
            for one in part:
                writer.writerow(
                    [one.address, one.tenant or "", one.reason, harmless(one.source), one.since.isoformat()]
                )
            yield text.getvalue()
            if len(part) < _AT_ONCE:
                return
            after = place(part[-1])

    def _new(self, entries: list[Entry]) -> int:
        """Count those that would be new, without writing any."""
        known = {
            (one.address, one.scope): one.reason for one in suppression.entries([entry.address for entry in entries])
        }
        order = list(Reason)
        return sum(
            1
            for one in entries
            if (before := known.get((one.address, one.scope))) is None or order.index(one.reason) > order.index(before)
        )


def place(row: SuppressionRow) -> str:
    """Say where an entry stands in the list, for the page that follows it."""
    return f"{row.address} {'' if row.tenant is None else row.tenant}".strip()


def _kept(entries: list[Entry]) -> int:
    with transaction():
        return suppression.keep(entries)


def _place(text: str) -> tuple[str, str]:
    address, _, tenant = text.partition(" ")
    return address, f"tenant:{tenant}" if tenant else INSTALLATION


def _scope(tenant: str | None) -> str:
    if tenant is None:
        return INSTALLATION
    with pooled_connection():
        if TenantMailSetting.get_or_none(TenantMailSetting.key == tenant) is None:
            raise InvalidInputError("tenant", tenant, "a tenant that exists (`rqmail tenant list` shows them)")
    return f"tenant:{tenant}"


def _reason(reason: Reason | str) -> Reason:
    return reason if isinstance(reason, Reason) else reason_named(reason)


def _row(entry: Entry) -> SuppressionRow:
    tenant = entry.scope.removeprefix("tenant:") if entry.scope != INSTALLATION else None
    return SuppressionRow(entry.address, tenant, entry.reason, entry.source, entry.since, entry.unsubscribed_on)
