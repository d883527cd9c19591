"""What a mailer is: one method that hands one mail to a provider."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Address:
    """One mail address with the name shown beside it (empty for none)."""

    address: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail as a provider needs it; ``id`` is our message id and travels along so that the mail can be found again.

    ``text`` and ``html`` are the bodies, ``None`` where there is none; ``headers`` are extra ``x-`` headers.
    """

    id: str
    subject: str
    to: tuple[Address, ...]
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    text: str | None = None
    html: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def recipient_count(self) -> int:
        """How many recipients the provider counts for this mail: to, cc and bcc together, every address each time."""
        return len(self.to) + len(self.cc) + len(self.bcc)


@dataclass(frozen=True, slots=True)
class Receipt:
    """The provider accepted the mail; the ids are what its support asks for."""

    status: int
    request_id: str | None = None
    client_request_id: str | None = None
    provider_message_id: str | None = None


class Mailer(Protocol):
    """Hands one mail to a provider.

    Returns a receipt once the provider accepted it; everything else is a ``MailError`` whose class says what to do.
    """

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` once; never retries by itself."""
        ...
