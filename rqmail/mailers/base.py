"""What a mailer is: one method that hands one mail to a provider."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import BinaryIO, Literal, Protocol

import idna

from rqmail.text.of_html import text_of_html

#: The most SendGrid takes in one request.
LARGEST_SENDGRID_REQUEST = 30 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Address:
    """One mail address with the name shown beside it (empty for none)."""

    address: str
    name: str = ""


def wire_address(address: str) -> str:
    """Write an address as providers take it: its domain in ASCII (IDNA 2008), its local part as it is."""
    if address.isascii():
        return address
    local, _, domain = address.rpartition("@")
    try:
        return f"{local}@{idna.encode(domain, uts46=True).decode()}"
    except idna.IDNAError:
        return address


@dataclass(slots=True)
class Permit:
    """Permission to write the request that sends a mail, taken directly before its first byte.

    ``check`` raises the ``MailError`` that says why it may not be written (any more). Until the permit is ``taken``
    nothing of the mail has left this machine, whatever goes wrong.
    """

    check: Callable[[], None]
    taken: bool = False
    #: What keeps the mail ours: each is told in how many seconds beyond the usual the next call may end.
    holds: list[Callable[[float], None]] = field(default_factory=list)

    def hold(self, seconds: float) -> None:
        """Keep the mail ours, and its place in flight, through a call that may take so much longer than a small one.

        Raises ``MailClaimLostError`` when it is not ours any more.
        """
        for one in self.holds:
            one(seconds)

    def take(self) -> None:
        """Check that the request may be written, and note that it is."""
        self.check()
        self.taken = True


@dataclass(frozen=True, slots=True)
class MailFile:
    """One file of a mail, its bytes not read yet: ``open`` answers a seekable stream of them from where they are kept.

    An inline picture has the ``content_id`` by which the HTML shows it.
    """

    name: str
    content_type: str
    size: int
    sha256: str
    open: Callable[[], BinaryIO] = field(compare=False, repr=False)
    is_inline: bool = False
    content_id: str | None = None

    def read(self) -> bytes:
        """Answer all of its bytes: for what fits into one request."""
        with self.open() as opened:
            return opened.read()


@dataclass(frozen=True, slots=True)
class Mail:
    """One mail as a provider needs it; ``id`` is our message id and travels along so that the mail can be found again.

    ``text`` and ``html`` are the bodies, ``None`` where there is none; ``headers`` are extra headers by name, of which
    intake has let through what may be set; ``from_`` is whom the mail is from, where not the mailbox itself; ``copied``
    is whether the provider is to keep a copy in Sent Items; ``internet_message_id`` is the Message-ID it goes out with
    and ``date`` the date it was written on, ``None`` where the provider writes them; ``marked`` is whether the mailbox
    takes a property of ours to find it by: in others it is found by its Message-ID; ``raw`` is the mail itself in MIME
    form where nothing else says it: all but its recipients is then as it stands there; ``permit`` is to be taken before
    the request is written, where somebody must know that moment; ``attempt`` names this attempt at it, and
    ``tried_before`` says that it is not the first.
    """

    id: str
    subject: str
    to: tuple[Address, ...]
    cc: tuple[Address, ...] = ()
    bcc: tuple[Address, ...] = ()
    text: str | None = None
    html: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    files: tuple[MailFile, ...] = ()
    reply_to: tuple[Address, ...] = ()
    importance: Literal["low", "normal", "high"] = "normal"
    read_receipt: bool = False
    delivery_receipt: bool = False
    from_: Address | None = None
    copied: bool = True
    internet_message_id: str | None = None
    date: datetime | None = None
    marked: bool = True
    raw: MailFile | None = None
    permit: Permit | None = field(default=None, compare=False, repr=False)
    attempt: str | None = field(default=None, compare=False)
    tried_before: bool = field(default=False, compare=False)

    @property
    def before_writing(self) -> Callable[[], None] | None:
        """What to call directly before the first byte of the request that sends it."""
        return None if self.permit is None else self.permit.take

    def hold(self, seconds: float) -> None:
        """Keep it ours through a call that may take so much longer than a small one, where it can be lost."""
        if self.permit is not None:
            self.permit.hold(seconds)

    @property
    def recipient_count(self) -> int:
        """How many recipients the provider counts for this mail: to, cc and bcc together, every address each time."""
        return len(self.to) + len(self.cc) + len(self.bcc)

    @property
    def addresses(self) -> list[str]:
        """Whom it goes to: to, cc and bcc together, every address each time."""
        return [one.address for one in (*self.to, *self.cc, *self.bcc)]


@dataclass(frozen=True, slots=True)
class Receipt:
    """The provider accepted the mail; the ids are what its support asks for."""

    status: int
    request_id: str | None = None
    client_request_id: str | None = None
    provider_message_id: str | None = None


@dataclass(frozen=True, slots=True)
class Checked:
    """What a provider says about a sender without a mail being sent; ``None`` is what could not be told.

    ``outcome`` says how far the question came: ``not-known`` is an answer that tells nothing, ``away`` none at all, and
    ``unconfigured`` a setting that is missing on our side.
    """

    exists: bool | None = None
    may_send: bool | None = None
    may_read: bool | None = None
    may_write: bool | None = None
    problem: str | None = None
    outcome: Literal["answered", "not-known", "away", "unconfigured"] = "answered"


def plain_text(mail: Mail) -> str:
    """Answer the text of a mail: its own, or else what its HTML says; empty for a mail that says nothing."""
    if mail.text is not None or mail.html is None:
        return mail.text or ""
    return text_of_html(mail.html)


class Mailer(Protocol):
    """Hands one mail to a provider.

    Returns a receipt once the provider accepted it; everything else is a ``MailError`` whose class says what to do.
    """

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` once; never retries by itself."""
        ...


def as_base64(size: int) -> int:
    """Answer how many characters of base64 so many bytes become."""
    return (size + 2) // 3 * 4
