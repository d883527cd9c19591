"""Sends a mail through SendGrid."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass
from datetime import datetime
from email.header import Header
from typing import Any

from requests.exceptions import RequestException
from urllib3.exceptions import HTTPError

from rqmail.clock import Clock, to_epoch_ms, utc_now
from rqmail.errors import (
    MailAuthError,
    MailboxUnavailableError,
    MailError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
    PauseCause,
)
from rqmail.mailers.base import (
    LARGEST_SENDGRID_REQUEST,
    Address,
    Checked,
    Mail,
    MailFile,
    Receipt,
    as_base64,
    plain_text,
    wire_address,
)
from rqmail.mailers.http.failures import error_for_exception
from rqmail.mailers.http.provider_text import one_line
from rqmail.mailers.http.retry_after import believable, parse_retry_after
from rqmail.mailers.http.transport import Answer, Transport, slow_seconds

MOST_RECIPIENTS = 1000
_SEPARATORS = frozenset(",;")
LARGEST_REQUEST = LARGEST_SENDGRID_REQUEST


class SendGridMailer:
    """Hands mails to SendGrid's ``mail/send``, all from one sender."""

    def __init__(
        self, transport: Transport, base_url: str, api_key: str, sender: Address, *, clock: Clock = utc_now
    ) -> None:
        self._transport = transport
        self._url = f"{base_url}/v3/mail/send"
        self._headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        self._sender = sender
        self._clock = clock

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` once; 202 is success."""
        if mail.recipient_count > MOST_RECIPIENTS:
            raise MailRejectedError(
                f"The mail has {mail.recipient_count:,} recipients; SendGrid takes {MOST_RECIPIENTS:,} in one mail"
            )
        if mail.raw is not None:  # it was handed in while its sender sent through Graph
            raise MailRejectedError("The mail is to be sent as it came, in MIME form, which SendGrid does not take")
        if (files := sum(as_base64(one.size) for one in mail.files)) > LARGEST_REQUEST:  # before they are all in memory
            raise _too_large(files)
        body = _encode(mail, self._sender)
        if len(body) > LARGEST_REQUEST:
            raise _too_large(len(body))
        mail.hold(2 * slow_seconds(len(body)))
        try:
            answer = self._transport.request("POST", self._url, self._headers, body, before_writing=mail.before_writing)
        except (RequestException, HTTPError, OSError) as error:
            raise error_for_exception(error, "SendGrid") from error
        if answer.status != 202:
            raise error_for_answer(answer, self._clock(), own_from=mail.from_ is not None)
        return Receipt(status=202, provider_message_id=answer.headers.get("X-Message-Id"))


def _too_large(size: int) -> MailRejectedError:
    return MailRejectedError(f"The mail is too large: {size:,} bytes as a request, SendGrid takes {LARGEST_REQUEST:,}")


def check_api_key(transport: Transport, base_url: str, api_key: str) -> Checked:
    """Ask SendGrid which scopes the key has; no mail is sent for it."""
    headers = {"Authorization": f"Bearer {api_key}", "Accept": "application/json"}
    try:
        answer = transport.request("GET", f"{base_url}/v3/scopes", headers)
    except (RequestException, HTTPError, OSError, ValueError) as error:
        problem = f"SendGrid cannot be reached ({type(error).__name__}); check the network or proxy"
        return Checked(problem=problem, outcome="away")
    if answer.status == 401:
        return Checked(may_send=False, problem="SendGrid refuses the API key")
    try:
        scopes = json.loads(answer.body)["scopes"] if answer.status == 200 else None
    except (ValueError, KeyError, TypeError, RecursionError):
        scopes = None
    if not isinstance(scopes, list):
        text = f"SendGrid answered {answer.status}, which says nothing about the API key"
        return Checked(problem=text, outcome="not-known")
    if "mail.send" not in scopes:
        return Checked(may_send=False, problem="the SendGrid API key lacks the permission Mail Send")
    return Checked(may_send=True)


def error_for_answer(answer: Answer, now: datetime, *, own_from: bool = False) -> MailError:
    """Turn an answer of SendGrid's that is not 202 into the ``MailError`` that says what to do next.

    ``own_from`` says that the mail was from another address than its sender's: a no about that is about the mail.
    """
    status = answer.status
    problems = _problems(answer.body)
    of_sender = next(((words, one) for one in problems if (words := _about_the_sender(one))), None)
    problem = of_sender[1] if of_sender else problems[0]
    detail = f"(status {status})" + (f": {problem.message}" if problem.message else "")
    wait = _wait_asked(answer, now)
    if status == 429 or (status == 503 and wait is not None):
        return MailThrottledError(f"SendGrid asks to slow down {detail}", retry_after=wait, status=status)
    if 400 <= status < 500 and status != 408 and of_sender:
        (about_it, cause), _ = of_sender
        if own_from and cause == "sender-refused":
            return MailRejectedError(f"SendGrid refuses the address that this mail is from {detail}", status=status)
        return _unavailable(about_it, cause, detail, status)
    if status in _ABOUT_NO_MAIL:
        return _unavailable(*_ABOUT_NO_MAIL[status], detail, status)
    if status in (401, 403):
        return MailAuthError(
            f"SendGrid does not let us in; check the API key, its Mail Send permission and the sender {detail}",
            status=status,
        )
    if 300 <= status < 400:
        return MailTransientError(
            f"A redirect came instead of SendGrid's answer; check RQMAIL_SENDGRID_BASE_URL {detail}", status=status
        )
    if 400 <= status < 500 and status != 408:
        return MailRejectedError(f"SendGrid refuses this mail {detail}", status=status)
    return MailOutcomeUnknownError(
        f"SendGrid's answer leaves open whether the mail was accepted {detail}", status=status
    )


def _unavailable(about_it: str, cause: PauseCause, detail: str, status: int) -> MailboxUnavailableError:
    error = MailboxUnavailableError(f"{about_it} {detail}", status=status)
    error.pause_cause = cause
    return error


#: Statuses that every mail would be answered with, whatever it is, and what is wrong then.
_ABOUT_NO_MAIL: dict[int, tuple[str, PauseCause]] = {
    200: (
        "Nothing was sent: SendGrid is in sandbox mode, or something else answers; check RQMAIL_SENDGRID_BASE_URL",
        "unavailable",
    ),
    402: ("SendGrid asks for payment before it sends", "credits"),
    404: ("What answers is not SendGrid's API; check RQMAIL_SENDGRID_BASE_URL", "unavailable"),
    405: ("What answers is not SendGrid's API; check RQMAIL_SENDGRID_BASE_URL", "unavailable"),
}


@dataclass(frozen=True, slots=True)
class _Problem:
    """One of SendGrid's errors: what it says, and the part of the request it is about."""

    message: str = ""
    field: str = ""


def _about_the_sender(problem: _Problem) -> tuple[str, PauseCause] | None:
    """Say what is wrong with the sender, where it is that and not the mail: every mail of it would be refused."""
    said = problem.message.lower()
    if "verified sender identity" in said:
        return (
            "The sender is not a verified Sender Identity at SendGrid; verify it there, or correct the sender's"
            " address",
            "sender-refused",
        )
    if "maximum credits exceeded" in said:
        words = "The SendGrid account has used up its credits; it sends again when they are renewed or raised"
        return words, "credits"
    if problem.field == "from" or problem.field.startswith("from.") or "the from object" in said:
        return "SendGrid refuses the sender's own address; correct it", "sender-refused"
    return None


def _wait_asked(answer: Answer, now: datetime) -> float | None:
    reset = answer.headers.get("X-RateLimit-Reset")
    try:
        seconds = float(reset or "") - to_epoch_ms(now) / 1000
    except ValueError:
        return parse_retry_after(answer.headers.get("Retry-After"), now)
    return believable(seconds)


def _problems(body: bytes) -> list[_Problem]:
    """Read the errors in an answer's body; one without words where there are none to read."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return [_Problem()]
    errors = document.get("errors") if isinstance(document, dict) else None
    found = [_problem(error) for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    return found or [_Problem()]


def _problem(error: dict[str, Any]) -> _Problem:
    message, field = error.get("message"), error.get("field")
    return _Problem(
        one_line(message) if isinstance(message, str) else "", field.lower() if isinstance(field, str) else ""
    )


def _encode(mail: Mail, sender: Address) -> bytes:
    # SendGrid refuses a mail that names an address twice; whoever is in To already needs no second copy.
    seen: set[str] = set()
    people = {"to": _once(mail.to, seen), "cc": _once(mail.cc, seen), "bcc": _once(mail.bcc, seen)}
    if not people["to"]:  # which SendGrid demands: whoever was in To may have been left out
        people["to"], people["cc"] = people["cc"], []
    document: dict[str, Any] = {
        "personalizations": [{kind: addresses for kind, addresses in people.items() if addresses}],
        "from": _person(mail.from_ or sender),
        "subject": mail.subject,
        "content": [
            {"type": kind, "value": body or " "}
            for kind, body in (("text/plain", plain_text(mail)), ("text/html", mail.html))
            if body is not None
        ],
        "headers": {
            **{name: _encoded(value) for name, value in mail.headers.items()},
            **_marks(mail, sender),
            "x-rqmail-id": mail.id,
        },
        "custom_args": {"rqmail-id": mail.id},
    }
    if mail.reply_to:
        document["reply_to_list"] = _once(mail.reply_to, set())
    if mail.files:
        document["attachments"] = [_attachment(one) for one in mail.files]
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", errors="replace")


def _marks(mail: Mail, sender: Address) -> dict[str, str]:
    """Say as headers what SendGrid has no field for."""
    reader = wire_address((mail.from_ or sender).address)
    told = {
        "Importance": "" if mail.importance == "normal" else mail.importance,
        "Disposition-Notification-To": reader if mail.read_receipt else "",
        "Return-Receipt-To": reader if mail.delivery_receipt else "",
        "Message-ID": mail.internet_message_id or "",
    }
    return {name: value for name, value in told.items() if value}


def _attachment(file: MailFile) -> dict[str, str]:
    content = base64.b64encode(file.read()).decode("ascii")
    told = {"content": content, "type": file.content_type, "filename": file.name, "disposition": "attachment"}
    if file.content_id is not None:
        told |= {"disposition": "inline", "content_id": file.content_id}
    return told


def _once(addresses: tuple[Address, ...], seen: set[str]) -> list[dict[str, str]]:
    people = []
    for address in addresses:
        key = address.address.strip().lower()
        if key not in seen:
            seen.add(key)
            people.append(_person(address))
    return people


def _person(address: Address) -> dict[str, str]:
    return {"email": wire_address(address.address)} | ({"name": _name(address.name)} if address.name else {})


def _name(name: str) -> str:
    """Put a name in quotes where SendGrid would take it for several."""
    if not _SEPARATORS & set(name):
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _encoded(value: str) -> str:
    """Write a header's value as a mail has it: SendGrid passes it on as it is."""
    return value if value.isascii() else Header(value, "utf-8").encode(linesep="")
