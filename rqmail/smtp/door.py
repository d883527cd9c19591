"""What a client is answered: who it is, as whom and to whom it sends, and 250 once its mail is stored."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from os import SEEK_END
from typing import BinaryIO, TypeAlias, TypeVar, cast

from aiosmtpd.smtp import AuthResult, Envelope, Session

from rqmail.administration.access import Access, Principal, Scope
from rqmail.administration.attempts import Attempts, TooManyAttemptsError
from rqmail.clock import monotonic
from rqmail.errors import ConflictError, InvalidInputError, RqmailError
from rqmail.intake.addresses import check_address
from rqmail.intake.draft import Checked, Intake
from rqmail.intake.eml.headers import in_one_line
from rqmail.intake.idempotency import HandedIn, Repeatable, Submission, Submitted
from rqmail.intake.recipients import MAX_RECIPIENTS
from rqmail.intake.relayed import Relayed, relayed
from rqmail.intake.senders import Sender, may_write_as
from rqmail.intake.suppressed import AllSuppressedError
from rqmail.logs import event_log
from rqmail.models.base import AWAY_ERRORS, pooled_connection
from rqmail.smtp.connection import Connection
from rqmail.smtp.senders import AddressBook
from rqmail.smtp.together import Together
from rqmail.text.scrubbing import scrubbed_start

log = event_log(__name__)

_T = TypeVar("_T")

_AWAY = "451 4.3.0 The mail cannot be stored now; try again later"
_WITHDRAWN = "530 5.7.0 The token opens no more: it was revoked, or has expired"
_UNREADABLE = "501 5.5.2 That is no base64"
_LONGEST_REPLY = 400

#: Who has just handed a mail in may begin the next within so long; for that mail the token is looked at all the same.
_LET_IN_SECONDS = 1.0

#: Bytes of a mail that others wait for while it is read and stored.
_SMALL = 512 * 1024


class _WithdrawnError(RqmailError):
    """The token with which a client signed in does not open any more."""


class _NotItsOwnError(RqmailError):
    """A mail is from another mailbox, which its token may not send from."""


@dataclass(frozen=True, slots=True)
class _Asking:
    """A client that says which address it sends from."""

    principal: Principal
    address: str


@dataclass(frozen=True, slots=True)
class _Came:
    """One mail that has come in: as whose, to whom, and what it is read from."""

    principal: Principal
    sender: str
    address: str
    recipients: tuple[str, ...]
    mail: BinaryIO


@dataclass(frozen=True, slots=True)
class _Stored:
    """What became of a mail that was taken."""

    checked: Checked
    submitted: Submitted


#: What becomes of a mail on its way from read to stored, or why not.
_Read: TypeAlias = Relayed | Exception
_Answer: TypeAlias = Checked | Exception


class Door:
    """Answers the commands of every client; what takes the database or Redis is done in ``threads``."""

    def __init__(
        self,
        access: Access,
        attempts: Attempts,
        submission: Submission,
        intake: Intake,
        threads: Executor,
    ) -> None:
        self._access = access
        self._attempts = attempts
        self._submission = submission
        self._intake = intake
        self._threads = threads
        self._senders = AddressBook(intake.senders)
        self._let_in_together = Together(self._let_in_each, threads)
        self._store_together = Together(self._store_each, threads)

    # --- who is there --------------------------------------------------------------------------------------------

    async def handle_EHLO(
        self, server: Connection, session: Session, _envelope: Envelope, hostname: str, responses: list[str]
    ) -> list[str]:
        """Announce what is true here beside what the library announces, and how large a mail of any mailbox may be."""
        session.host_name = hostname
        with suppress(*AWAY_ERRORS):  # what is set stands until the database is there again
            server.data_size_limit = await self._in_thread(self._intake.largest_message_bytes)
        own = [one for one in responses if not one.startswith("250-SIZE ")]
        size = f"250-SIZE {server.data_size_limit}"
        return [own[0], size, *own[1:-1], "250-PIPELINING", "250-ENHANCEDSTATUSCODES", own[-1]]

    async def auth_PLAIN(self, server: Connection, args: list[str]) -> AuthResult:
        """Take the token out of identity, name and password in one."""
        if len(args) == 1:
            answer = await server.challenge_auth("")
            if not isinstance(answer, bytes):
                return AuthResult(success=False, handled=True)
        else:
            decoded = _from_base64(args[1])
            if decoded is None:
                await server.push(_UNREADABLE)
                return AuthResult(success=False, handled=True)
            answer = decoded
        return await self._authenticated(server, answer.rpartition(b"\0")[2])

    async def auth_LOGIN(self, server: Connection, args: list[str]) -> AuthResult:
        """Ask for name and password, one after the other; the name is free."""
        if len(args) == 1 and not isinstance(await server.challenge_auth("Username:"), bytes):
            return AuthResult(success=False, handled=True)
        password = await server.challenge_auth("Password:")
        if not isinstance(password, bytes):
            return AuthResult(success=False, handled=True)
        return await self._authenticated(server, password)

    async def _authenticated(self, server: Connection, password: bytes) -> AuthResult:
        try:
            token = password.decode().strip()
        except UnicodeDecodeError:
            token = ""
        try:
            found = await self._in_thread(lambda: self._attempts.authenticate(self._access, token, server.address))
        except TooManyAttemptsError:
            return AuthResult(success=False, handled=False, message="454 4.7.0 Too many wrong tokens; try again later")
        except AWAY_ERRORS:
            return AuthResult(success=False, handled=False, message="454 4.7.0 Tokens cannot be looked up now")
        if found is None:
            return AuthResult(success=False, handled=False, message="535 5.7.8 The password is no token of rqmail")
        if not found.may(Scope.SEND):
            return AuthResult(success=False, handled=False, message="535 5.7.8 The token does not have the scope send")
        return AuthResult(success=True, handled=True, auth_data=found)

    # --- the envelope --------------------------------------------------------------------------------------------

    async def handle_MAIL(
        self, server: Connection, session: Session, envelope: Envelope, address: str, options: Sequence[str]
    ) -> str:
        """Take the sender: the address of a mailbox or a tenant that the token may send from."""
        principal: Principal = session.auth_data  # type: ignore[assignment]
        found = self._senders.known(address, principal) if monotonic() < server.let_in_until else None
        try:
            found = found or await self._let_in_together(_Asking(principal, address))
        except AWAY_ERRORS:
            return _AWAY
        except _WithdrawnError:
            session.authenticated = False
            return _WITHDRAWN
        if found is None:
            log.warning("smtp.refused", why="sender", who=principal.name)
            return "550 5.7.1 No mailbox that this token may send from has this address"
        most_bytes = found.rules.max_message_bytes
        if _announced_size(options) > most_bytes:
            return f"552 5.3.4 The mail is larger than {most_bytes} bytes, which is what this mailbox may send"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        server.sender, server.most_bytes = found.name, most_bytes
        return "250 2.1.0 Sender taken"

    def _let_in_each(self, asking: Sequence[_Asking]) -> list[Sender | Exception | None]:
        """Answer who sends from each of these addresses, for those whose tokens still open."""
        withdrawn = self._access.withdrawn(one.principal for one in asking)
        return [
            _WithdrawnError() if one.principal in withdrawn else self._senders.find(one.address, one.principal)
            for one in asking
        ]

    async def handle_RCPT(
        self, _server: Connection, _session: Session, envelope: Envelope, address: str, options: Sequence[str]
    ) -> str:
        """Take one recipient."""
        if len(envelope.rcpt_tos) >= MAX_RECIPIENTS:
            return f"452 4.5.3 At most {MAX_RECIPIENTS} recipients in one mail"
        try:
            checked = check_address(address, "to")
        except InvalidInputError:
            return "553 5.1.3 This is no mail address"
        envelope.rcpt_tos.append(checked)
        envelope.rcpt_options.extend(options)
        return "250 2.1.5 Recipient taken"

    # --- the mail ------------------------------------------------------------------------------------------------

    async def handle_DATA(self, server: Connection, session: Session, envelope: Envelope) -> str:
        """Store the mail; 250 is said after its row is committed, and never otherwise."""
        principal: Principal = session.auth_data  # type: ignore[assignment]
        mail: BinaryIO = envelope.content  # type: ignore[assignment]
        came = _Came(principal, server.sender, envelope.mail_from or "", tuple(envelope.rcpt_tos), mail)
        began = monotonic()
        try:
            stored = await self._stored(came)
        except _WithdrawnError:
            server.let_in_until = 0.0
            return _WITHDRAWN
        except _NotItsOwnError:
            log.warning("smtp.refused", why="from", who=principal.name)
            return "550 5.7.1 The From of the mail is another mailbox, which this token may not send from"
        except InvalidInputError as error:
            log.warning("smtp.refused", why=error.field, who=principal.name)
            return scrubbed_start(f"554 5.6.0 {in_one_line(str(error))}", _LONGEST_REPLY)
        except (*AWAY_ERRORS, ConflictError) as error:
            log.warning("smtp.notStored", err=type(error).__name__, who=principal.name)
            return _AWAY
        server.let_in_until = began + _LET_IN_SECONDS
        [message_id] = stored.submitted.ids
        left_out = len(stored.checked.message.left_out)
        log.info(
            "smtp.accepted",
            messageUuid=message_id,
            replayed=stored.submitted.replayed,
            suppressed=left_out,
            notices=[one.text for one in stored.checked.all_notices()],
            who=principal.name,
        )
        noted = f", without {left_out} suppressed" if left_out else ""
        return f"250 2.0.0 Stored as {message_id}{noted}"

    async def _stored(self, came: _Came) -> _Stored:
        """Store one mail: together with others that are there now, unless they would have to wait long for it."""
        if came.mail.seek(0, SEEK_END) <= _SMALL:
            return await self._store_together(came)
        [answer] = await self._in_thread(lambda: self._store_each([came]))
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _store_each(self, mails: Sequence[_Came]) -> list[_Stored | Exception]:
        """Read and store mails that came at the same time, each for itself, in one transaction where that can be.

        One with nobody left to go to is taken as it came, and ends saying so: a program that speaks SMTP would take a
        refusal for a fault of its own, and show it to nobody.
        """
        with ExitStack() as open_files:
            read = [_read(one, open_files) for one in mails]
            with pooled_connection():
                checked = self._checked(mails, read)
            handed_in = {
                place: HandedIn(answer.message, _repeatable(mails[place], found), mails[place].principal.name)
                for place, (answer, found) in enumerate(zip(checked, read, strict=True))
                if isinstance(answer, Checked) and isinstance(found, Relayed)
            }
            submitted = dict(zip(handed_in, self._submission.submit_each(list(handed_in.values())), strict=True))
        return [_with(one, submitted.get(place)) for place, one in enumerate(checked)]

    def _checked(self, mails: Sequence[_Came], read: Sequence[_Read]) -> list[_Answer]:
        withdrawn = self._access.withdrawn(one.principal for one in mails)
        checks = self._intake.checks()
        for one in mails:
            known = self._senders.find(one.address, one.principal)
            if known is not None and known.name == one.sender:
                checks.know(known.name, known.rules)
        drafts = [found.draft for found in read if isinstance(found, Relayed)]
        found = iter(checks.check_all(drafts))
        answers: list[_Answer] = []
        for one, relayed_one in zip(mails, read, strict=True):
            answer = next(found) if isinstance(relayed_one, Relayed) else relayed_one
            answer = Checked(answer.message) if isinstance(answer, AllSuppressedError) else answer
            answers.append(_WithdrawnError() if one.principal in withdrawn else answer)
        return answers

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _read(came: _Came, open_files: ExitStack) -> _Read:
    """Read a mail; ``open_files`` closes what it is read from. What is wrong with it is an answer of its own."""
    try:
        came.mail.seek(0)
        found = open_files.enter_context(relayed(came.mail, came.sender, came.recipients, address=came.address))
        may_write = may_write_as(found.draft.from_, came.principal.may_send_from)
    except Exception as error:  # noqa: BLE001 - whose mail it is hears of it, and the others are stored
        return error
    return found if may_write else _NotItsOwnError()


def _with(checked: _Answer, submitted: Submitted | Exception | None) -> _Stored | Exception:
    if isinstance(checked, Exception):
        return checked
    return submitted if isinstance(submitted, Exception) else _Stored(checked, cast(Submitted, submitted))


def _repeatable(came: _Came, found: Relayed) -> Repeatable | None:
    """Recognise a mail that comes again because its client never heard our 250.

    The same mail to other recipients is another one: large envelopes are sent in parts. What else changed in it (a
    client may add a header at each try) does not matter.
    """
    if not found.message_id:
        return None
    parts = [found.message_id, came.sender, *sorted(came.recipients)]
    key = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return Repeatable(f"smtp {came.principal.name}", key, "")


def _announced_size(options: Sequence[str]) -> int:
    """Answer the size a client says its mail has (RFC 1870), 0 where it does not."""
    said = next((value for name, _, value in (one.partition("=") for one in options) if name == "SIZE"), "")
    return int(said) if said.isascii() and said.isdigit() else 0


def _from_base64(text: str) -> bytes | None:
    try:
        if text == "=":  # an empty answer (RFC 4954)
            return b""
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
