"""Every error rqmail raises, grouped by what the one who catches it does next."""

from __future__ import annotations

from typing import Literal

from rqmail.text.scrubbing import scrubbed


class RqmailError(Exception):
    """Root of everything rqmail raises on purpose."""


# --- fix the input, then ask again ---------------------------------------------------------------------------------


class InvalidInputError(RqmailError):
    """A value handed in cannot be used; ``field`` names it and ``allowed`` says what would have been."""

    def __init__(self, field: str, value: object, allowed: str) -> None:
        super().__init__(scrubbed(f"{field}: {value!r} is not valid; allowed: {allowed}"))
        self.field = field
        self.value = value
        self.allowed = allowed


class SettingsError(InvalidInputError):
    """An ``RQMAIL_*`` variable has a value that is not allowed, or one that is needed is missing."""


class NotFoundError(RqmailError):
    """The thing asked for does not exist: ``kind`` (mailbox, tenant, message) and ``key`` name it."""

    def __init__(self, kind: str, key: str) -> None:
        super().__init__(f"{kind} {key!r} does not exist")
        self.kind = kind
        self.key = key


class ConflictError(RqmailError):
    """What was asked does not fit the present state (a mailbox that exists already, a sent message cancelled)."""


# --- not to be run at all --------------------------------------------------------------------------------------------


class JobRefusedError(RqmailError):
    """A job in Redis is none of ours: it is not run, and somebody should look who may write there."""

    def __init__(self, job_id: str, why: str) -> None:
        self.why = scrubbed(why)
        super().__init__(f"job {scrubbed(job_id)!r} is refused: {self.why}")
        self.job_id = job_id


# --- a send that did not end in acceptance: what to do with message, budget and mailbox -----------------------------


#: Why a sender is paused, for programs: a person wants it, or the provider's answers brought it about.
PauseCause = Literal[
    "paused-by-person",
    "throttled",
    "quota",
    "credits",
    "mailbox-full",
    "blocked",
    "not-found",
    "policy",
    "sender-refused",
    "unavailable",
    "sign-in",
    "rejecting",
    "fault",
]


class MailError(RqmailError):
    """A send did not end in acceptance; the subclass says what happens to message, budget and mailbox.

    ``status`` is the HTTP status, ``code`` the provider's own error code, ``request_id`` and ``client_request_id``
    what its support asks for; each is ``None`` where there was no answer to read it from. ``granted_ms`` is when the
    call that failed had got its place in the budget (ms since 1970), where it had one; ``pause_cause`` is what the
    sender is paused for, where it is. The text goes into the message's row, the log and the pages: secrets are taken
    out of it here.
    """

    granted_ms: int | None = None
    pause_cause: PauseCause | None = None

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        client_request_id: str | None = None,
    ) -> None:
        super().__init__(scrubbed(message))
        self.status = status
        self.code = code
        self.request_id = request_id
        self.client_request_id = client_request_id


class MailRateLimitExceededError(MailError):
    """Our own budget has no room: send later. Nothing was reserved and no attempt was made.

    ``reason`` is ``'minute'``, ``'day'`` or ``'upload'``; ``retry_after_ms`` is the earliest moment this very request
    could pass. ``scope`` is whose budget that is: the ``mailbox``, or what it shares with others (``tenant``,
    ``onmicrosoft``).
    """

    name = "MailRateLimitExceededError"

    def __init__(self, mailbox_key: str, reason: str, retry_after_ms: int, scope: str = "mailbox") -> None:
        what = reason if scope == "mailbox" else f"{reason}, {scope}"
        super().__init__(f"Mail rate limit exceeded for {mailbox_key} ({what}); retry in {retry_after_ms}ms")
        self.scope = scope
        self.mailbox_key = mailbox_key
        self.reason = reason
        self.retry_after_ms = retry_after_ms


class MailboxPausedError(MailError):
    """The mailbox is paused for everyone: send later. Nothing was reserved and no attempt was made."""

    def __init__(self, mailbox_key: str, reason: str, retry_after_ms: int) -> None:
        super().__init__(f"Mailbox {mailbox_key} is paused ({reason}); retry in {retry_after_ms}ms")
        self.mailbox_key = mailbox_key
        self.reason = reason
        self.retry_after_ms = retry_after_ms


class MailboxBusyError(MailError):
    """As many requests as allowed are in flight on the mailbox: try again in a moment, in the same lane."""

    def __init__(self, mailbox_key: str, retry_after_ms: int) -> None:
        super().__init__(f"Mailbox {mailbox_key} has all its requests in flight; retry in {retry_after_ms}ms")
        self.mailbox_key = mailbox_key
        self.retry_after_ms = retry_after_ms


class MailThrottledError(MailError):
    """The provider asks to slow down: give the budget back, pause the mailbox for all workers, send later.

    ``retry_after`` is what the provider asked for in seconds, or ``None`` when it named nothing usable.
    """

    pause_cause: PauseCause | None = "throttled"

    def __init__(
        self,
        message: str,
        *,
        retry_after: float | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        client_request_id: str | None = None,
    ) -> None:
        super().__init__(message, status=status, code=code, request_id=request_id, client_request_id=client_request_id)
        self.retry_after = retry_after


class MailTransientError(MailError):
    """Certainly not sent, and likely to work soon: give the budget back, count an attempt, try again with back-off."""


class MailRejectedError(MailError):
    """The provider will never take this message: give the budget back and tell a person why."""


class MailboxUnavailableError(MailError):
    """The mailbox itself cannot send now (full, blocked, not found, policy): pause it with the reason and probe it."""

    pause_cause: PauseCause | None = "unavailable"


class NoNamedPropertyError(MailboxUnavailableError):
    """The mailbox can create no more named properties: nothing was sent, and the mail goes without ours."""


class MailboxNotWritableError(MailboxUnavailableError):
    """The mail needs a draft and we may make none in this mailbox: this mail waits, smaller ones of the mailbox go."""


class MailAuthError(MailError):
    """We are not authorised (token, consent, secret): pause the mailbox with the reason; a person must look."""

    pause_cause: PauseCause | None = "sign-in"


class MailboxNotReadableError(MailError):
    """We may not read this mailbox: what happened to a mail cannot be looked up there, a person must decide."""


class TracesNotReadableError(MailError):
    """We may not read the tenant's message trace: whether mail was delivered stays unknown until that is granted."""


class MailClaimLostError(MailError):
    """Certainly not sent, and no longer ours to send: the claim on the message may have ended, leave it to others."""


class MailOutcomeUnknownError(MailError):
    """The provider may have accepted it: keep the budget, do not send again until that is known."""


# --- to be told to a person ------------------------------------------------------------------------------------------

#: The libraries whose errors mean that a server is not there or not ready, and what to say about it. They are told by
#: name, because importing them only to catch their errors would make every command slow to start.
_SERVERS = {
    "peewee": "The database cannot be used",
    "psycopg": "The database cannot be used",
    "redis": "Redis cannot be used",
}


def told(error: Exception) -> str | None:
    """Put an error that was to be expected into words; ``None`` for one that is a bug and deserves its traceback."""
    if isinstance(error, RqmailError):
        return scrubbed(str(error))
    for cls in type(error).__mro__:
        library = cls.__module__.partition(".")[0]
        if library in _SERVERS:
            text = " ".join(scrubbed(str(error)).split())
            hint = "; run `rqmail init` first" if "no such table" in text or "does not exist" in text else ""
            return f"{_SERVERS[library]}: {text}{hint}"
    return None
