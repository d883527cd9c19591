"""One client's connection: aiosmtpd's protocol, mails read to disk, enhanced codes, bounds on what one may take."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network, ip_address
from tempfile import SpooledTemporaryFile
from typing import IO, Any, cast

from aiosmtpd.smtp import SMTP, Envelope, TLSSetupException

from rqmail.logs import event_log

log = event_log(__name__)

#: A client that sends nothing for so long, or less than a piece of a mail in it, is hung up on; so is one that has not
#: signed in by then, whatever it sends.
IDLE_SECONDS = 60.0
_PIECE = 64 * 1024

#: How long it then has to read why, before nothing is kept for it any more.
_FAREWELL_SECONDS = 5.0

#: Less than this of a mail stays in memory.
_IN_MEMORY = 256 * 1024

_LONGEST_COMMAND = 2_000

#: Connections at once, of everybody and of one address.
MAX_CONNECTIONS = 200
MAX_CONNECTIONS_OF_ONE = 50

#: What a client may write behind the sender that is of no use here (RFC 4954: it has to be taken all the same).
_ON_BEHALF_OF = re.compile(r"\sAUTH=\S*", re.IGNORECASE)

#: An address as nearly all clients write it, and what may stand behind: it is read as the library reads it.
_PLAIN_ADDRESS = re.compile(
    r"<([A-Za-z0-9_+=-]+(?:\.[A-Za-z0-9_+=-]+)*@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*)>(?:[ \t]+([A-Za-z][!-~ \t]*))?"
)

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
        self._sends_cr = False
        self._ends_lines_with_lf = False
        #: Whose mail it is, once MAIL FROM has been taken: ``mailbox:KEY`` or ``tenant:KEY``.
        self.sender = ""
        #: How many bytes a mail of this sender may have; ``data_size_limit`` is what a mail of any may.
        self.most_bytes = max_bytes
        #: Whether the client is in the middle of a mail, or waits to hear what became of it.
        self.is_taking_a_mail = False
        #: Until when (:func:`rqmail.clock.monotonic`) the token it signed in with needs no look for the next sender: it
        #: was looked at for a mail just now, and is for each mail before that is stored.
        self.let_in_until = 0.0

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

    def data_received(self, data: bytes) -> None:
        """Note whether the client ends its lines as SMTP has it."""
        self._sends_cr = self._sends_cr or b"\r" in data
        super().data_received(data)

    def _reset_timeout(self, duration: float | None = None) -> None:
        """Give the client time anew, once it has signed in; until then its time runs from when it came."""
        if self._timeout_handle is None or (self.session is not None and self.session.authenticated):
            super()._reset_timeout(duration)

    def _timeout_cb(self) -> None:
        """Hang up on a client that is too slow, also where it does not read that."""
        if self.transport is None:
            return
        log.info("smtp.tooSlow", address=self.address)
        self._writer.write(b"421 4.4.2 Too slow; try again later\r\n")
        self.transport.close()
        self.loop.call_later(_FAREWELL_SECONDS, self.hang_up)

    def hang_up(self) -> None:
        """Close the connection now, whatever the client has still to read."""
        if self.transport is not None:
            cast(asyncio.WriteTransport, self.transport).abort()

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

    async def smtp_AUTH(self, arg: str) -> None:
        """Sign in; the mechanism may be written in any case, as .NET's client does."""
        mechanism, blank, rest = (arg or "").partition(" ")
        await super().smtp_AUTH(f"{mechanism.upper()}{blank}{rest}")
        self._reset_timeout()

    def _getaddr(self, arg: str) -> tuple[str | None, str | None]:
        """Answer the address and what stands behind it; the library builds a tree of objects for each sign."""
        plain = _PLAIN_ADDRESS.fullmatch(arg)
        if plain is not None:
            return plain[1], plain[2] or ""
        try:
            return super()._getaddr(arg)
        except IndexError:  # the library's way to say that the address ends before its end
            return None, None

    async def smtp_MAIL(self, arg: str | None) -> None:
        """Take the sender, without what a relay may add about whose mail it was (``AUTH=``)."""
        end = (arg or "").find(">") + 1
        await super().smtp_MAIL(arg and arg[:end] + _ON_BEHALF_OF.sub("", arg[end:]))

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
        # A device that has never sent a CR ends its mail without one, too. To nobody else may a bare LF mean the end:
        # a relay passes on what strangers wrote, and that could go on with commands.
        self._ends_lines_with_lf = self._ends_lines_with_lf or not self._sends_cr
        await self.push("354 End data with <CR><LF>.<CR><LF>")
        self.is_taking_a_mail = True
        try:
            await self.push(await self._taken(self.envelope))
        finally:
            self.is_taking_a_mail = False

    async def _taken(self, envelope: Envelope) -> str:
        """Read a mail and have it handed in; answer what the client is told about it."""
        with SpooledTemporaryFile(_IN_MEMORY) as mail:
            refusal = await self._read_to(mail)
            if refusal:
                self._set_post_data_state()  # type: ignore[no-untyped-call]
                return refusal
            mail.seek(0)
            envelope.content = mail  # type: ignore[assignment]
            if self._timeout_handle is not None:
                self._timeout_handle.cancel()  # it is not the client that takes its time now
            try:
                return str(await self._call_handler_hook("DATA"))
            finally:
                self._set_post_data_state()  # type: ignore[no-untyped-call]
                self._reset_timeout()

    async def _read_to(self, mail: IO[bytes]) -> str:
        """Read up to the line with a dot; answer why the mail was not kept, nothing where it was."""
        line_end = b"\n" if self._ends_lines_with_lf else b"\r\n"
        marker = b"\n" if self._ends_lines_with_lf else b".\r\n"
        ends = (b"\n.\n", b"\n.\r\n") if self._ends_lines_with_lf else (b"\r\n.\r\n",)
        limit, size, since_reset, refusal = self.most_bytes, 0, 0, ""
        too_large = f"552 5.3.4 The mail is larger than {limit} bytes"
        before = b"\r\n"  # the last two bytes that came, before anything was taken away
        while True:
            try:
                piece = await self._reader.readuntil(marker)
            except asyncio.LimitOverrunError as error:
                piece = await self._reader.read(error.consumed)
            since_reset += len(piece)
            if since_reset >= _PIECE:
                self._reset_timeout()
                since_reset = 0
            whole = before + piece
            is_end = whole.endswith(ends)
            if is_end:
                whole = whole[: whole.rindex(b".")]
            size += len(whole) - 2
            if size > limit:
                refusal = too_large
            if not refusal:
                try:
                    mail.write(_without_stuffing(whole, line_end))
                except OSError as error:
                    log.error("smtp.noSpace", err=error.strerror)  # noqa: TRY400 - said in full
                    refusal = "452 4.3.1 There is no space for the mail now; try again later"
            if is_end:
                return refusal
            if size > 2 * limit and self.transport is not None:
                await self.push(too_large)
                self.transport.close()
                raise ConnectionResetError
            before = whole[-2:]

    async def handle_exception(self, error: Exception) -> str:
        """Tell the client to try again, and the log what went wrong, without what the client sent."""
        if isinstance(error, TLSSetupException):
            log.warning("smtp.tlsFailed", address=self.address, err=type(error.__cause__ or error).__name__)
        else:
            log.error("smtp.failed", err=type(error).__name__, exc_info=error)
        return "451 4.3.0 Something went wrong here; try again later"


def _without_stuffing(whole: bytes, line_end: bytes) -> bytes:
    """Answer what comes after the first two bytes, without the dots that were put before dots at a line's beginning."""
    stuffed = line_end + b"."
    return whole.replace(stuffed, line_end)[2:] if stuffed in whole else whole[2:]
