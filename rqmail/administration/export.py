"""Messages taken along as CSV: every one that matches, newest first, however many there are."""

from __future__ import annotations

from collections.abc import Iterator

from rqmail.administration import messages
from rqmail.administration.messages import Filter
from rqmail.insight.jsonable import as_json
from rqmail.insight.spreadsheet import csv_lines
from rqmail.models import listing
from rqmail.models.deliveries import deliveries_of

#: Messages fetched at once.
_AT_ONCE = 500

_COLUMNS = (
    "id",
    "sender",
    "status",
    "priority",
    "subject",
    "recipient_count",
    "created_on",
    "requested_on",
    "scheduled_on",
    "sent_on",
    "attempts",
    "deferrals",
    "waiting_for",
    "last_error",
)


def as_csv(wanted: Filter, delimiter: str = ",") -> Iterator[str]:
    """Write the matching messages with all their recipients, a line at a time."""
    return csv_lines((*_COLUMNS, "recipients", "delivery"), _rows(wanted), delimiter)


def _rows(wanted: Filter) -> Iterator[list[object]]:
    last: str | None = None
    while found := messages.find(wanted, limit=_AT_ONCE, after=last):
        ids = [one.id for one in found]
        addresses, delivered = listing.addresses(ids), deliveries_of(ids)
        for one in found:
            told = ", ".join(f"{address} {known.status}" for address, known in delivered.get(one.id, {}).items())
            yield [*(as_json(getattr(one, column)) for column in _COLUMNS), ", ".join(addresses[one.id]), told]
        last = found[-1].id
