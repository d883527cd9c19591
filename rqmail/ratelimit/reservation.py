"""What the limiter answers to one message: a place in the budgets, or when there will be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, get_args

from rqmail.ratelimit.scopes import Scope, ScopeName

DenialReason: TypeAlias = Literal["minute", "day", "in_flight", "paused", "upload"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """One call, its recipients and bytes to upload, taken from a mailbox's budgets.

    Its ``external_count`` was taken from each of the ``scopes``. Not ``counted`` when Redis could not be asked.
    """

    id: str
    mailbox_key: str
    recipient_count: int
    granted_ms: int
    counted: bool = True
    upload_bytes: int = 0
    scopes: tuple[Scope, ...] = ()
    external_count: int = 0


class Wanted(NamedTuple):
    """What one mail asks for; ``external`` of its recipients of each scope."""

    recipients: int
    upload_bytes: int = 0
    external: int = 0
    scopes: tuple[Scope, ...] = ()

    def granted(self, reservation_id: str, mailbox_key: str, at_ms: int, *, counted: bool = True) -> Reservation:
        """Answer the reservation of all of it."""
        return Reservation(
            reservation_id, mailbox_key, self.recipients, at_ms, counted, self.upload_bytes, self.scopes, self.external
        )


@dataclass(frozen=True, slots=True)
class Denial:
    """No room: ``retry_after_ms`` is when this very request could pass, all windows considered, if it came alone.

    ``reason`` is what ends then; the others have ended by that time. A place in flight may come free much sooner.
    ``never`` says that it has more recipients than a whole day allows, and ``pause_reason`` why the mailbox is paused.
    ``scope`` is whose day is used up: the mailbox's own, or one that it shares.
    """

    reason: DenialReason
    retry_after_ms: int
    pause_reason: str | None = None
    never: bool = False
    scope: ScopeName = "mailbox"


#: The reasons as the scripts say them.
REASONS: dict[str, DenialReason] = {reason: reason for reason in get_args(DenialReason)}
