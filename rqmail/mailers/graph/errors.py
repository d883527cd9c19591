"""What Microsoft Graph's answers mean: by ``error.code`` first, by status where the code says nothing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import Any

from rqmail.errors import (
    MailAuthError,
    MailboxUnavailableError,
    MailError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
    NoNamedPropertyError,
    PauseCause,
)
from rqmail.logs import event_log
from rqmail.mailers.http.provider_text import one_line
from rqmail.mailers.http.retry_after import parse_retry_after
from rqmail.text.scrubbing import scrubbed_start

log = event_log(__name__)

#: No more of a body is looked at: an error of Graph's fits in one or two kilobytes.
_PREFIX_BYTES = 64 * 1024


class _Meaning(Enum):
    """What an answer means, with the words that tell a person what to do about it."""

    THROTTLED = "Microsoft Graph asks to slow down"
    TRANSIENT = "The mailbox cannot take the mail at this moment; nothing was sent"
    UNAVAILABLE = "The mailbox cannot send now"
    AUTH = "Microsoft Graph does not let us in; check the app's secret, its Mail.Send permission and the admin consent"
    REJECTED = "Microsoft Graph refuses this mail"
    UNKNOWN = "Microsoft Graph's answer leaves open whether the mail was accepted"


_CLASSES: dict[_Meaning, type[MailError]] = {
    _Meaning.TRANSIENT: MailTransientError,
    _Meaning.UNAVAILABLE: MailboxUnavailableError,
    _Meaning.AUTH: MailAuthError,
    _Meaning.REJECTED: MailRejectedError,
    _Meaning.UNKNOWN: MailOutcomeUnknownError,
}

#: Codes in lower case, as the services do not agree on capitals.
_BY_CODE = {
    "toomanyrequests": _Meaning.THROTTLED,
    "applicationthrottled": _Meaning.THROTTLED,
    "errorserverbusy": _Meaning.THROTTLED,
    "serviceunavailable": _Meaning.THROTTLED,
    "commandconcurrencylimitreached": _Meaning.THROTTLED,
    "mailboxinfostale": _Meaning.THROTTLED,
    "errorirresolvableconflict": _Meaning.TRANSIENT,
    "errormailboxstoreunavailable": _Meaning.TRANSIENT,
    "errormailboxmoveinprogress": _Meaning.TRANSIENT,
    "errormailboxfailover": _Meaning.TRANSIENT,
    "errorexceededmessagelimit": _Meaning.UNAVAILABLE,
    "errorsubmissionquotaexceeded": _Meaning.UNAVAILABLE,
    "errormessagesubmissionblocked": _Meaning.UNAVAILABLE,
    "errorquotaexceeded": _Meaning.UNAVAILABLE,
    "errorinvaliduser": _Meaning.UNAVAILABLE,
    "resourcenotfound": _Meaning.UNAVAILABLE,
    "request_resourcenotfound": _Meaning.UNAVAILABLE,
    "mailboxnotenabledforrestapi": _Meaning.UNAVAILABLE,
    "invalidauthenticationtoken": _Meaning.AUTH,
    "erroraccessdenied": _Meaning.AUTH,
    "authorization_requestdenied": _Meaning.AUTH,
    "errorsendasdenied": _Meaning.REJECTED,
    "errorinvalidrecipients": _Meaning.REJECTED,
    "invalidinternetmessageheader": _Meaning.REJECTED,
    "invalidinternetmessageheadercollection": _Meaning.REJECTED,
    "errormessagesizeexceeded": _Meaning.REJECTED,
    "errorvirusdetected": _Meaning.REJECTED,
    "badrequest": _Meaning.REJECTED,
    "requestbodyread": _Meaning.REJECTED,
    "errorinvalidrequest": _Meaning.REJECTED,
    "errorinternalservererror": _Meaning.UNKNOWN,
    "unknownerror": _Meaning.UNKNOWN,
}
_BY_CODE_PREFIX = {"erroraccountsuspend": _Meaning.UNAVAILABLE, "errormimecontentinvalid": _Meaning.REJECTED}

_BY_STATUS = {
    401: _Meaning.AUTH,
    403: _Meaning.AUTH,
    404: _Meaning.UNAVAILABLE,
    408: _Meaning.UNKNOWN,
    413: _Meaning.REJECTED,
    429: _Meaning.THROTTLED,
    507: _Meaning.UNAVAILABLE,
}

#: Statuses that decide alone when the code is one we have never seen.
_STATUS_BEFORE_UNKNOWN_CODE = frozenset({401, 408, 413, 429, 507})

#: A gateway that gave up cannot know that the mail was not taken, whatever code it repeats.
_GAVE_UP_WAITING = frozenset({408, 502, 504})

_OVER_QUOTA = "The mailbox is over its sending quota; it sends again when Exchange's 24 hours allow"
_NO_SUCH_MAILBOX = "The sending mailbox does not exist under this address; check the sender"

#: Where the general words of a meaning are not enough to act on.
_WORDS_BY_CODE = {
    "errorexceededmessagelimit": _OVER_QUOTA,
    "errorsubmissionquotaexceeded": _OVER_QUOTA,
    "errormessagesubmissionblocked": "Exchange has blocked the mailbox from sending; an administrator must unblock it",
    "errorquotaexceeded": "The mailbox is full; make room in it",
    "errorinvaliduser": _NO_SUCH_MAILBOX,
    "resourcenotfound": _NO_SUCH_MAILBOX,
    "request_resourcenotfound": _NO_SUCH_MAILBOX,
    "mailboxnotenabledforrestapi": "The sender has no mailbox in Exchange Online that Graph can use; check its licence",
    "errorsendasdenied": "The mailbox may not send as this sender; grant Send As, or correct the from address",
    "errormessagesizeexceeded": "The mail is larger than the mailbox may send",
    "errorinvalidrecipients": "A recipient's address is not valid",
    "errorvirusdetected": "Exchange found a virus in the mail",
}
#: What the mailbox is paused for, where its code tells more than that it cannot send.
_CAUSE_BY_CODE: dict[str, PauseCause] = {
    "errorexceededmessagelimit": "quota",
    "errorsubmissionquotaexceeded": "quota",
    "errormessagesubmissionblocked": "blocked",
    "errorquotaexceeded": "mailbox-full",
    "errorinvaliduser": "not-found",
    "resourcenotfound": "not-found",
    "request_resourcenotfound": "not-found",
    "mailboxnotenabledforrestapi": "not-found",
}
_BLOCKED_AS_SPAMMER = re.compile(r"(?<![\d.])5\.1\.8(?![\d.]*\d)|bad outbound sender", re.IGNORECASE)
_SALVAGED_CODE = re.compile(r'\A\s*\{\s*"error"\s*:\s*\{\s*"code"\s*:\s*"([A-Za-z0-9_.:-]{1,100})"')


@dataclass(frozen=True, slots=True)
class GraphProblem:
    """What can be read from an error body; every part may be missing."""

    code: str | None = None
    inner_code: str | None = None
    message: str = ""
    request_id: str | None = None
    client_request_id: str | None = None


def error_for_answer(status: int, headers: Mapping[str, str], body: bytes, now: datetime) -> MailError:
    """Turn an answer that is not 202 into the ``MailError`` that says what to do next."""
    lowered = {name.lower(): value for name, value in headers.items()}
    problem = read_problem(body)
    request_id = lowered.get("request-id") or problem.request_id
    client_request_id = lowered.get("client-request-id") or problem.client_request_id
    meaning, known = _meaning_of(status, "retry-after" in lowered, problem)
    if not known:
        log.warning("mail.graph.unknownCode", status=status, code=problem.code, requestId=request_id)
    text = _words(status, meaning, problem)
    if meaning is _Meaning.THROTTLED:
        return MailThrottledError(
            text,
            retry_after=parse_retry_after(lowered.get("retry-after"), now),
            status=status,
            code=problem.code,
            request_id=request_id,
            client_request_id=client_request_id,
        )
    kind = NoNamedPropertyError if _lacks_names(problem) else _CLASSES[meaning]
    error = kind(text, status=status, code=problem.code, request_id=request_id, client_request_id=client_request_id)
    if meaning is _Meaning.UNAVAILABLE:
        error.pause_cause = _cause(status, problem)
    return error


def read_problem(body: bytes) -> GraphProblem:
    """Read Graph's error from a body in any of its shapes; from HTML, nonsense or nothing comes an empty problem."""
    text = body[:_PREFIX_BYTES].decode("utf-8-sig", errors="replace")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        salvaged = _SALVAGED_CODE.match(text)
        return GraphProblem(code=salvaged.group(1) if salvaged else None)
    error = _object(_object(document).get("error"))
    inner = _object(error.get("innerError")) or _object(error.get("innererror"))
    return GraphProblem(
        code=_code(error.get("code")),
        inner_code=_code(inner.get("code")),
        message=_text(error.get("message")) or "",
        request_id=_text(inner.get("request-id")),
        client_request_id=_text(inner.get("client-request-id")),
    )


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str | None:
    return scrubbed_start(value, 1000) if isinstance(value, str) and value else None


def _code(value: Any) -> str | None:
    return one_line(value)[:100] or None if isinstance(value, str) else None


def _meaning_of(status: int, has_retry_after: bool, problem: GraphProblem) -> tuple[_Meaning, bool]:
    """Answer what the answer means, and whether its code (or the lack of one) is known to us."""
    if _BLOCKED_AS_SPAMMER.search(problem.message):
        return _Meaning.UNAVAILABLE, True
    by_code = _by_code(problem.code) or _by_code(problem.inner_code)
    if by_code is _Meaning.AUTH and "raop" in problem.message.lower():
        return _Meaning.UNAVAILABLE, True
    if by_code in (_Meaning.THROTTLED, _Meaning.TRANSIENT) and status in _GAVE_UP_WAITING:
        return _Meaning.UNKNOWN, True
    if by_code is _Meaning.UNKNOWN and status == 429:
        return _Meaning.THROTTLED, True
    if by_code:
        return by_code, True
    known = problem.code is None
    if status in _BY_STATUS and (known or status in _STATUS_BEFORE_UNKNOWN_CODE):
        return _BY_STATUS[status], known or status == 429
    if status == 503 and has_retry_after:
        return _Meaning.THROTTLED, known
    if 300 <= status < 400:
        return _Meaning.TRANSIENT, known
    return _Meaning.REJECTED if 400 <= status < 500 else _Meaning.UNKNOWN, known


def _by_code(code: str | None) -> _Meaning | None:
    if code is None:
        return None
    lowered = code.lower()
    exact = _BY_CODE.get(lowered)
    if exact:
        return exact
    return next((meaning for prefix, meaning in _BY_CODE_PREFIX.items() if lowered.startswith(prefix)), None)


def _lacks_names(problem: GraphProblem) -> bool:
    """Say whether it is not room that the mailbox lacks, but names for properties."""
    return _own_code(problem) == "errorquotaexceeded" and "cannot get id from name" in problem.message.lower()


def _own_code(problem: GraphProblem) -> str:
    return ((problem.code if _by_code(problem.code) else problem.inner_code) or "").lower()


def _cause(status: int, problem: GraphProblem) -> PauseCause:
    """Say what a mailbox that cannot send is paused for."""
    code = _own_code(problem)
    if _lacks_names(problem):
        return "unavailable"
    if _BLOCKED_AS_SPAMMER.search(problem.message) or code.startswith("erroraccountsuspend"):
        return "blocked"
    if "raop" in problem.message.lower():
        return "policy"
    if status == 507:
        return "mailbox-full"
    return _CAUSE_BY_CODE.get(code, "not-found" if status == 404 else "unavailable")


def _words(status: int, meaning: _Meaning, problem: GraphProblem) -> str:
    """Say what happened in a sentence a person can act on, with the provider's own message, addresses left out."""
    if _BLOCKED_AS_SPAMMER.search(problem.message):
        words = "Exchange has blocked the mailbox as a bad outbound sender; an administrator must release it"
    elif meaning is _Meaning.UNAVAILABLE and "raop" in problem.message.lower():
        words = "An application access policy keeps us out of this mailbox; a change to it takes up to a day to spread"
    elif 300 <= status < 400:
        words = "A redirect came instead of Microsoft Graph's answer; check RQMAIL_GRAPH_BASE_URL and the proxy"
    elif status == 413:
        words = "The mail is larger than one request to Microsoft Graph may be (4 MB)"
    elif _lacks_names(problem):
        words = "The mailbox can create no more named properties (Exchange's quota of them is used up)"
    elif status == 507:
        words = _WORDS_BY_CODE["errorquotaexceeded"]
    else:
        words = _WORDS_BY_CODE.get(_own_code(problem), meaning.value)
    said = one_line(problem.message)
    return f"{words} ({problem.code or 'no code'}, status {status})" + (f": {said}" if said else "")
