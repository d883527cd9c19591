"""What a mailbox may send: a value, and the rule that fills in what nobody set."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from rqmail.errors import InvalidInputError
from rqmail.text.values import without_unseen_edges


@dataclass(frozen=True)
class RateLimits:
    """Calls a minute, recipients a day, requests in flight, bytes uploaded in five minutes that a mailbox is allowed.

    The defaults stay a margin below what Exchange allows: about 30 calls, 10,000 recipients, 4 requests at once. Of
    uploads it takes 150 MB; those are counted as millions of bytes, whichever it means. Only mails whose files do not
    fit one request upload; one that is larger than the window takes all of it.
    """

    per_minute: int = 25
    recipients_per_day: int = 9000
    in_flight: int = 3
    upload_bytes: int = 150_000_000

    def __post_init__(self) -> None:
        for field, value in (
            ("per_minute", self.per_minute),
            ("recipients_per_day", self.recipients_per_day),
            ("in_flight", self.in_flight),
            ("upload_bytes", self.upload_bytes),
        ):
            if value < 1:
                raise InvalidInputError(field, value, "1 or more")


DEFAULT_LIMITS = RateLimits()

#: What Exchange Online allows a mailbox, whatever is set here.
EXCHANGE = RateLimits(per_minute=30, recipients_per_day=10_000, in_flight=4)


def above_exchange(rate_limit_per_minute: int | None, rate_limit_recipients_per_day: int | None) -> list[str]:
    """Say for each limit that is above what Exchange Online allows any mailbox that the rest of it is of no use."""
    warnings = []
    for value, most, what in (
        (rate_limit_per_minute, EXCHANGE.per_minute, "messages a minute"),
        (rate_limit_recipients_per_day, EXCHANGE.recipients_per_day, "recipients a day"),
    ):
        if value is not None and value > most:
            warnings.append(f"Exchange Online allows a mailbox {most:,} {what}, and refuses more than that: {value:,}.")
    return warnings


def resolve_limits(
    rate_limit_per_minute: int | None,
    rate_limit_recipients_per_day: int | None,
    *,
    defaults: RateLimits = DEFAULT_LIMITS,
) -> RateLimits:
    """Take a mailbox's own limits where they are positive, the defaults where they are empty or not."""
    return RateLimits(
        per_minute=own_limit(rate_limit_per_minute) or defaults.per_minute,
        recipients_per_day=own_limit(rate_limit_recipients_per_day) or defaults.recipients_per_day,
        in_flight=defaults.in_flight,
        upload_bytes=defaults.upload_bytes,
    )


@lru_cache(maxsize=4096)
def mailbox_key(address: str) -> str:
    """Turn a mail address into the name its budget is kept under: without what is unseen around it, lower-cased."""
    return without_unseen_edges(address).lower()


def own_limit(stored: int | None) -> int | None:
    """Answer a mailbox's own limit; one of 0 or below, as the source's tables may have it, is none."""
    return stored if stored is not None and stored > 0 else None
