"""What the limiter answers to one message: a place in the budgets, or when there will be one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

DenialReason: TypeAlias = Literal["minute", "day", "in_flight", "paused", "upload"]


@dataclass(frozen=True, slots=True)
class Reservation:
    """One call, its recipients and bytes to upload, taken from a mailbox's budgets.

    Not ``counted`` when Redis could not be asked.
    """

    id: str
    mailbox_key: str
    recipient_count: int
    granted_ms: int
    counted: bool = True
    upload_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Denial:
    """No room: ``retry_after_ms`` is when this very request could pass, all windows considered, if it came alone.

    ``reason`` is what ends then; the others have ended by that time. A place in flight may come free much sooner.
    ``never`` says that it has more recipients than a whole day allows, and ``pause_reason`` why the mailbox is paused.
    """

    reason: DenialReason
    retry_after_ms: int
    pause_reason: str | None = None
    never: bool = False


#: The reasons as the scripts say them.
REASONS: dict[str, DenialReason] = {reason: reason for reason in get_args(DenialReason)}
