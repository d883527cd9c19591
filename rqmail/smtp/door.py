"""What a client is answered: who it is, as whom and to whom it sends, and 250 once its mail is stored."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import suppress
from dataclasses import dataclass
from os import SEEK_END
from typing import BinaryIO, TypeAlias, TypeVar, cast

from aiosmtpd.smtp import AuthResult, Envelope, Session

from rqmail.administration.access import Access, Principal, Scope
from rqmail.administration.attempts import Attempts, TooManyAttemptsError
from rqmail.clock import monotonic
from rqmail.errors import ConflictError, InvalidInputError, RqmailError
from rqmail.intake.addresses import check_address
from rqmail.intake.draft import Checked, Draft, Intake
from rqmail.intake.eml.headers import in_one_line
from rqmail.intake.idempotency import HandedIn, Repeatable, Submission, Submitted
from rqmail.intake.recipients import MAX_RECIPIENTS
from rqmail.intake.relayed import Relayed, relayed
from rqmail.intake.sender_rules import SenderRules
from rqmail.intake.senders import may_write_as
from rqmail.intake.suppressed import AllSuppressedError
from rqmail.logs import event_log
from rqmail.models.base import AWAY_ERRORS
from rqmail.smtp.connection import Connection
from rqmail.smtp.senders import sender_of
from rqmail.smtp.together import Together
from rqmail.text.scrubbing import scrubbed_start

log = event_log(__name__)

_T = TypeVar("_T")

_AWAY = "451 4.3.0 The mail cannot be stored now; try again later"
_WITHDRAWN = "530 5.7.0 The token opens no more: it was revoked, or has expired"
_UNREADABLE = "501 5.5.2 That is no base64"
_LONGEST_REPLY = 400

#: So long a sender that was found is not looked for again, and so many are remembered.
_SENDER_SECONDS = 1.0
_MOST_SENDERS = 1_000

#: Bytes of a mail that others wait for while it is stored.
_SMALL = 512 * 1024


class _WithdrawnError(RqmailError):
    """The token with which a client signed in does not open any more."""


@dataclass(frozen=True, slots=True)
class _Incoming:
    """One mail that was read: whose, what it says, and by what it is recognised when it comes again."""

    principal: Principal
    address: str
    draft: Draft
    repeatable: Repeatable | None


#: What becomes of a mail on its way from checked to stored, or why not.
_Answer: TypeAlias = Checked | Exception


def _with(checked: _Answer, submitted: Submitted | Exception | None) -> tuple[Checked, Submitted] | Exception:
    if isinstance(checked, Exception):
        return checked
    return submitted if isinstance(submitted, Exception) else (checked, cast(Submitted, submitted))


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
        self._senders: dict[tuple[str, Principal], tuple[tuple[str, SenderRules], float]] = {}
        self._store_together = Together(self._store_each)

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
        try:
            is_let_in = await self._in_thread(lambda: self._access.is_still_let_in(principal))
            found = await self._in_thread(lambda: self._known_sender(address, principal))
        except AWAY_ERRORS:
            return _AWAY
        if not is_let_in:
            session.authenticated = False
            return _WITHDRAWN
        if found is None:
            log.warning("smtp.refused", why="sender", who=principal.name)
            return "550 5.7.1 No mailbox that this token may send from has this address"
        sender, most_bytes = found[0], found[1].max_message_bytes
        if _announced_size(options) > most_bytes:
            return f"552 5.3.4 The mail is larger than {most_bytes} bytes, which is what this mailbox may send"
        envelope.mail_from = address
        envelope.mail_options.extend(options)
        server.sender, server.most_bytes = sender, most_bytes
        return "250 2.1.0 Sender taken"

    def _known_sender(self, address: str, principal: Principal) -> tuple[str, SenderRules] | None:
        """Answer as :meth:`_sender` does, as it was a moment ago: many mails come from few senders."""
        asked, now = (address, principal), monotonic()
        known = self._senders.get(asked)
        if known is not None and now < known[1]:
            return known[0]
        found = self._sender(address, principal)
        if len(self._senders) >= _MOST_SENDERS:
            self._senders.clear()
        if found is not None:
            self._senders[asked] = (found, now + _SENDER_SECONDS)
        return found

    def _sender(self, address: str, principal: Principal) -> tuple[str, SenderRules] | None:
        """Answer who sends from this address, and what its mail must keep to."""
        sender = sender_of(address, principal)
        try:
            return None if sender is None else (sender, self._intake.rules_of(sender))
        except InvalidInputError:  # it was deleted meanwhile
            return None

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
        sender, address, recipients = server.sender, envelope.mail_from, tuple(envelope.rcpt_tos)
        return await self._in_thread(lambda: self._store(principal, sender, address, recipients, mail))

    def _store(
        self, principal: Principal, sender: str, address: str | None, recipients: tuple[str, ...], mail: BinaryIO
    ) -> str:
        try:
            with relayed(mail, sender, recipients, address=address) as found:
                if not may_write_as(found.draft.from_, principal.may_send_from):
                    log.warning("smtp.refused", why="from", who=principal.name)
                    return "550 5.7.1 The From of the mail is another mailbox, which this token may not send from"
                repeatable = _repeatable(principal, found, sender, recipients)
                checked, submitted = self._stored(_Incoming(principal, address or "", found.draft, repeatable), mail)
        except _WithdrawnError:
            return _WITHDRAWN
        except InvalidInputError as error:
            log.warning("smtp.refused", why=error.field, who=principal.name)
            return scrubbed_start(f"554 5.6.0 {in_one_line(str(error))}", _LONGEST_REPLY)
        except (*AWAY_ERRORS, ConflictError) as error:
            log.warning("smtp.notStored", err=type(error).__name__, who=principal.name)
            return _AWAY
        [message_id] = submitted.ids
        left_out = len(checked.message.left_out)
        log.info(
            "smtp.accepted",
            messageUuid=message_id,
            replayed=submitted.replayed,
            suppressed=left_out,
            notices=[one.text for one in checked.all_notices()],
            who=principal.name,
        )
        noted = f", without {left_out} suppressed" if left_out else ""
        return f"250 2.0.0 Stored as {message_id}{noted}"

    def _stored(self, incoming: _Incoming, mail: BinaryIO) -> tuple[Checked, Submitted]:
        """Store one mail: together with others that are there now, unless they would have to wait long for it."""
        if mail.seek(0, SEEK_END) <= _SMALL:
            return self._store_together(incoming)
        [answer] = self._store_each([incoming])
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _store_each(self, mails: Sequence[_Incoming]) -> list[tuple[Checked, Submitted] | Exception]:
        """Store mails that came at the same time, each for itself, in one transaction where that can be.

        One with nobody left to go to is taken as it came, and ends saying so: a program that speaks SMTP would take a
        refusal for a fault of its own, and show it to nobody.
        """
        withdrawn = {one for one in {mail.principal for mail in mails} if not self._access.is_still_let_in(one)}
        checks = self._intake.checks()
        for mail in mails:
            if (known := self._known_sender(mail.address, mail.principal)) is not None and known[
                0
            ] == mail.draft.sender:
                checks.know(*known)
        found = checks.check_all([mail.draft for mail in mails])
        answers: list[_Answer] = []
        for mail, one in zip(mails, found, strict=True):
            checked = Checked(one.message) if isinstance(one, AllSuppressedError) else one
            answers.append(_WithdrawnError() if mail.principal in withdrawn else checked)
        handed_in = {
            place: HandedIn(one.message, mails[place].repeatable, mails[place].principal.name)
            for place, one in enumerate(answers)
            if isinstance(one, Checked)
        }
        submitted = dict(zip(handed_in, self._submission.submit_each(list(handed_in.values())), strict=True))
        return [_with(one, submitted.get(place)) for place, one in enumerate(answers)]

    async def _in_thread(self, work: Callable[[], _T]) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)


def _repeatable(principal: Principal, found: Relayed, sender: str, recipients: Sequence[str]) -> Repeatable | None:
    """Recognise a mail that comes again because its client never heard our 250.

    The same mail to other recipients is another one: large envelopes are sent in parts. What else changed in it (a
    client may add a header at each try) does not matter.
    """
    if not found.message_id:
        return None
    parts = [found.message_id, sender, *sorted(recipients)]
    key = hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()
    return Repeatable(f"smtp {principal.name}", key, "")


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
