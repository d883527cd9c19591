"""One client's connection: aiosmtpd's protocol, mails read to disk, enhanced codes, bounds on what one may take."""

from __future__ import annotations

import asyncio
import ssl
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from tempfile import SpooledTemporaryFile
from typing import IO, Any

import structlog
from aiosmtpd.smtp import SMTP, TLSSetupException

log = structlog.get_logger(__name__)

#: A client that sends nothing for so long, or less than a piece of a mail in it, is hung up on.
IDLE_SECONDS = 60.0
_PIECE = 64 * 1024

#: Less than this of a mail stays in memory.
_IN_MEMORY = 256 * 1024

_LONGEST_COMMAND = 2_000

#: Connections at once, of everybody and of one address.
MAX_CONNECTIONS = 200
MAX_CONNECTIONS_OF_ONE = 50

_END = b".\r\n"

#: What stands behind a reply's code where the library gives none (RFC 3463).
_ENHANCED = {
    "221": "2.0.0", "250": "2.0.0", "450": "4.2.0", "451": "4.3.0", "454": "4.7.0", "500": "5.5.2", "501": "5.5.4",
    "502": "5.5.1", "503": "5.5.1", "504": "5.5.4", "530": "5.7.0", "538": "5.7.11", "552": "5.3.4", "553": "5.1.3",
    "554": "5.7.0", "555": "5.5.4",
}  # fmt: skip
_WITHOUT = ("220 ", "250-", "334", "354")


@dataclass(slots=True)
class Guests:
    """Who is connected now, and from where a password may come without TLS."""

    trusted: tuple[IPv4Network | IPv6Network, ...] = ()
    connected: Counter[str] = field(default_factory=Counter)

    def admit(self, address: str) -> bool:
        """Count one more connection, unless there are too many; each that was admitted is told to :meth:`gone`."""
        if self.connected.total() >= MAX_CONNECTIONS or self.connected[address] >= MAX_CONNECTIONS_OF_ONE:
            return False
        self.connected[address] += 1
        return True

    def gone(self, address: str) -> None:
        """Count one connection less."""
        self.connected[address] -= 1
        if self.connected[address] <= 0:
            del self.connected[address]

    def trusts(self, address: str) -> bool:
        """Say whether a token may come from there without TLS: from loopback and the networks that were named."""
        try:
            ip = ip_address(address)
        except ValueError:
            return False
        mapped = getattr(ip, "ipv4_mapped", None)
        ip = mapped or ip
        return ip.is_loopback or any(ip in network for network in self.trusted)


class Connection(SMTP):
    """A client's connection; ``envelope.content`` is a file that holds the mail, to be read from its beginning."""

    line_length_limit = _PIECE

    def __init__(
        self,
        door: Any,
        guests: Guests,
        *,
        max_bytes: int,
        hostname: str,
        tls_context: ssl.SSLContext | None,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(
            door,
            data_size_limit=max_bytes,
            enable_SMTPUTF8=True,
            hostname=hostname,
            ident="rqmail",
            tls_context=tls_context,
            timeout=IDLE_SECONDS,
            auth_required=True,
            loop=loop,
        )
        self.command_size_limits = defaultdict(lambda: _LONGEST_COMMAND)  # the library shares one between connections
        self._guests = guests
        self._handshake_is_done = False
        #: Whose mail it is, once MAIL FROM has been taken: ``mailbox:KEY`` or ``tenant:KEY``.
        self.sender = ""
        #: Whether the client is in the middle of a mail, or waits to hear what became of it.
        self.is_taking_a_mail = False

    @property
    def address(self) -> str:
        """Where the client is."""
        peer = None if self.session is None else self.session.peer
        return str(peer[0]) if isinstance(peer, tuple) else "local"

    @property
    def is_private(self) -> bool:
        """Whether nobody between the client and here can read what it sends."""
        return self._tls_protocol is not None or self._handshake_is_done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note whether TLS came before the first word, and whether a token may be taken without."""
        super().connection_made(transport)
        if transport.get_extra_info("sslcontext") is not None:
            self._handshake_is_done = True
        self._auth_require_tls = not (self.is_private or self._guests.trusts(self.address))

    async def _handle_client(self) -> None:
        address = self.address
        if not self._guests.admit(address):
            log.warning("smtp.tooManyConnections", address=address)
            await self.push("421 4.7.0 Too many connections; try again later")
            if self.transport is not None:
                self.transport.close()
            return
        try:
            await super()._handle_client()
        finally:
            self._guests.gone(address)

    async def push(self, status: Any) -> None:
        """Send a reply, with an enhanced code if it has none."""
        if isinstance(status, str) and not status.startswith(_WITHOUT):
            code, _, text = status.partition(" ")
            if code in _ENHANCED and text[:2] not in {"2.", "4.", "5."} and text != "HELP":
                status = f"{code} {_ENHANCED[code]} {text}"
        await super().push(status)

    async def smtp_DATA(self, arg: str) -> None:
        """Take a mail to disk, as large as it may be and as fast as it comes, and have it handed in."""
        if await self.check_helo_needed() or await self.check_auth_needed("DATA"):
            return
        if self.envelope is None or not self.envelope.rcpt_tos:
            await self.push("503 Error: need RCPT command")
            return
        if arg:
            await self.push("501 Syntax: DATA")
            return
        await self.push("354 End data with <CR><LF>.<CR><LF>")
        self.is_taking_a_mail = True
        with SpooledTemporaryFile(_IN_MEMORY) as mail:
            if await self._read_to(mail):
                mail.seek(0)
                self.envelope.content = mail  # type: ignore[assignment]
                status = await self._call_handler_hook("DATA")
            else:
                status = f"552 5.3.4 The mail is larger than {self.data_size_limit} bytes"
            self._set_post_data_state()  # type: ignore[no-untyped-call]
        await self.push(status)
        self.is_taking_a_mail = False

    async def _read_to(self, mail: IO[bytes]) -> bool:
        """Read up to the line with a dot; say whether the mail was small enough to be kept."""
        limit = self.data_size_limit or 0
        size = 0
        before = b"\r\n"  # the last two bytes that came, before anything was taken away
        while True:
            try:
                piece = await self._reader.readuntil(_END)
            except asyncio.LimitOverrunError as error:
                piece = await self._reader.read(error.consumed)
            self._reset_timeout()
            whole = before + piece
            ends = whole.endswith(b"\r\n" + _END)
            if ends:
                whole = whole[: -len(_END)]
            size += len(whole) - 2
            if size <= limit:
                mail.write(_without_stuffing(whole))
            elif size > 2 * limit and self.transport is not None:
                await self.push(f"552 5.3.4 The mail is larger than {limit} bytes")
                self.transport.close()
                raise ConnectionResetError
            if ends:
                return size <= limit
            before = whole[-2:]

    async def handle_exception(self, error: Exception) -> str:
        """Tell the client to try again, and the log what went wrong, without what the client sent."""
        if isinstance(error, TLSSetupException):
            log.warning("smtp.tlsFailed", address=self.address, err=type(error.__cause__ or error).__name__)
        else:
            log.error("smtp.failed", err=type(error).__name__, exc_info=error)
        return "451 4.3.0 Something went wrong here; try again later"


def _without_stuffing(whole: bytes) -> bytes:
    """Answer what comes after the first two bytes, without the dots that were put before dots at a line's beginning."""
    if b"\r\n." not in whole:
        return whole[2:]
    return whole.replace(b"\r\n.", b"\r\n")[2:]
