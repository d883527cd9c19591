"""What our own values are called on the pages: one table for each kind of value, in the viewer's language."""

from __future__ import annotations

from typing import Final

from flask_babel import LazyString, lazy_gettext, lazy_pgettext

from rqmail.web.pages.language import Counted, counted, gettext_noop

Words = dict[str, LazyString]

#: What an error page is called, by its HTTP status.
ERRORS: Final[dict[int, LazyString]] = {
    400: lazy_gettext("This cannot be read"),
    401: lazy_gettext("Sign in first"),
    403: lazy_gettext("This is not allowed"),
    404: lazy_gettext("This does not exist"),
    409: lazy_gettext("This does not fit the present state"),
    413: lazy_gettext("This is too large"),
    429: lazy_gettext("Too many attempts"),
    500: lazy_gettext("Something went wrong here"),
    503: lazy_gettext("Not available right now"),
}

#: How bad a problem is, or what a check found.
LEVELS: Final[Words] = {
    "error": lazy_gettext("Error"),
    "warning": lazy_gettext("Warning"),
    "ok": lazy_gettext("OK"),
}

#: Messages of unknown outcome that went through what a sender was before an edit.
LEFT_BEHIND: Final[Counted] = counted(
    "1 message of unknown outcome went through the old settings; it is looked up there.",
    "%(number)s messages of unknown outcome went through the old settings; they are looked up there.",
)
NOT_TO_BE_LOOKED_UP: Final[Counted] = counted(
    "The old access is gone: 1 of them cannot be looked up and waits for a decision.",
    "The old access is gone: %(number)s of them cannot be looked up and wait for a decision.",
)

#: Senders that wait for the same thing, and how much mail that holds back.
SENDERS_HELD: Final[Counted] = counted(
    "1 sender is held back (%(reason)s): %(waiting)s.", "%(number)s senders are held back (%(reason)s): %(waiting)s."
)
MESSAGES_WAITING: Final[Counted] = counted("1 message is waiting", "%(number)s messages are waiting")

#: What has to be well for mail to go out.
CHECKS: Final[Words] = {
    "database": lazy_gettext("Database"),
    "durability": lazy_gettext("Durability"),
    "replication": lazy_gettext("Replication"),
    "redis persistence": lazy_gettext("Persistence of Redis"),
    "redis": lazy_gettext("Redis"),
    "ticks": lazy_gettext("Scheduler"),
    "workers": lazy_gettext("Workers"),
    "settings": lazy_gettext("Settings"),
    "secret key": lazy_gettext("Secret key"),
    "graph certificate": lazy_gettext("Graph certificate"),
    "transport": lazy_gettext("Transport"),
    "redirect": lazy_gettext("Redirect"),
    "senders": lazy_gettext("Senders"),
    "machinery": lazy_gettext("Scheduler and workers"),
    "graph": lazy_gettext("Microsoft Graph"),
    "message trace": lazy_gettext("Message trace"),
}

#: Senders: one, many, asked about, not asked about in time, and never asked about.
SENDERS: Final[Words] = {
    "mailbox": lazy_gettext("Mailbox"),
    "tenant": lazy_gettext("Tenant"),
}
SENDERS_OF: Final[dict[str, Counted]] = {
    "mailbox": counted("1 mailbox", "%(number)s mailboxes"),
    "tenant": counted("1 tenant", "%(number)s tenants"),
}
SENDERS_ASKED: Final[Counted] = counted(
    "The provider was asked about 1 sender.", "The providers were asked about %(number)s senders."
)
SENDERS_LEFT: Final[Counted] = counted(
    "There was no time to ask about 1 other: the button goes on with it.",
    "There was no time to ask about %(number)s others: the button goes on with them.",
)
SENDERS_UNASKED: Final[Counted] = counted(
    "Nobody has asked about 1 sender yet.", "Nobody has asked about %(number)s senders yet."
)

#: What the chart counts.
SERIES: Final[Words] = {
    "sent": lazy_gettext("Sent"),
    "deferred": lazy_gettext("Deferred"),
    "failed": lazy_gettext("Failed"),
}

#: What a worker is doing.
WORKERS: Final[Words] = {
    "busy": lazy_gettext("busy"),
    "idle": lazy_gettext("idle"),
    "started": lazy_gettext("starting"),
    "suspended": lazy_gettext("suspended"),
}

#: Whether Redis answers.
REDIS: Final[Words] = {
    "ok": lazy_gettext("Answers"),
    "unreachable": lazy_gettext("Cannot be reached"),
    "misconfigured": lazy_gettext("Refuses us"),
}

#: How a sender stands.
STATES: Final[Words] = {
    "ok": lazy_gettext("OK"),
    "near": lazy_gettext("Near its limit"),
    "limited": lazy_gettext("Limited"),
    "full-speed": lazy_gettext("At full speed"),
    "paused": lazy_gettext("Paused"),
    "unknown": lazy_gettext("Unknown"),
}

#: What a mailbox shares with others.
SHARED: Final[Words] = {
    "tenant": lazy_gettext("Whole Entra tenant"),
    "onmicrosoft": lazy_gettext("All senders on onmicrosoft.com"),
}

#: What the limiter denied a place for.
DENIED: Final[Words] = {
    "minute": lazy_gettext("for the minute"),
    "day": lazy_gettext("for the day"),
    "upload": lazy_gettext("for the volume of uploads"),
    "tenant": lazy_gettext("for the external recipients of the tenant"),
    "onmicrosoft": lazy_gettext("for the external recipients of onmicrosoft.com"),
    "paused": lazy_gettext("during a pause"),
    "in_flight": lazy_gettext("for too many at once"),
}

#: Whose turn it is, where a sender's mail waits for more than its budget; ``by`` and ``provider`` fill it in.
TURNS: Final[dict[str, str]] = {
    "redis": gettext_noop("Redis is away"),
    "nobody": gettext_noop("Nobody carries mail"),
    "paused-by-person": gettext_noop("Paused by %(by)s"),
    "paused": gettext_noop("Paused"),
    "throttled": gettext_noop("Throttled by %(provider)s"),
    "quota": gettext_noop("Provider's sending limit reached"),
    "credits": gettext_noop("Provider's credits used up"),
    "mailbox-full": gettext_noop("Mailbox full"),
    "blocked": gettext_noop("Blocked by the provider"),
    "not-found": gettext_noop("Mailbox not found"),
    "policy": gettext_noop("Kept out by an access policy"),
    "sender-refused": gettext_noop("Sender refused"),
    "unavailable": gettext_noop("Mailbox cannot send"),
    "sign-in": gettext_noop("Sign-in refused"),
    "rejecting": gettext_noop("Mail is rejected"),
    "fault": gettext_noop("A fault of rqmail's own"),
    "retrying": gettext_noop("To be tried again"),
}

#: Where a limit comes from.
SOURCES: Final[Words] = {
    "default": lazy_gettext("default"),
    "override": lazy_gettext("own limit"),
}

#: The same, in a sentence.
SOURCES_LONG: Final[Words] = {
    "default": lazy_gettext("The default for every mailbox"),
    "override": lazy_gettext("Set for this mailbox"),
}

#: A message's status.
STATUSES: Final[Words] = {
    "SCHEDULED": lazy_gettext("Scheduled"),
    "QUEUED": lazy_pgettext("message", "Queued"),
    "SENDING": lazy_gettext("Sending"),
    "SENT": lazy_gettext("Sent"),
    "ERROR": lazy_gettext("Failed"),
    "UNKNOWN": lazy_pgettext("message", "Unknown"),
    "CANCELLED": lazy_gettext("Cancelled"),
    "EXPIRED": lazy_gettext("Expired"),
}

#: A message's priority.
PRIORITIES: Final[Words] = {
    "high": lazy_gettext("High"),
    "normal": lazy_gettext("Normal"),
    "low": lazy_gettext("Low"),
}

#: What a message waits for.
WAITS: Final[Words] = {
    "minute": lazy_gettext("minute budget"),
    "day": lazy_gettext("day budget"),
    "upload": lazy_gettext("volume of uploads"),
    "tenant": lazy_gettext("external recipients of the tenant"),
    "onmicrosoft": lazy_gettext("external recipients of onmicrosoft.com"),
    "paused": lazy_gettext("mailbox paused"),
    "in-flight": lazy_gettext("requests in flight"),
    "throttled": lazy_gettext("provider asked to slow down"),
    "retry": lazy_gettext("retry after a failure"),
    "auth": lazy_gettext("sign-in refused"),
    "mailbox-unavailable": lazy_gettext("mailbox unavailable"),
    "fault": lazy_gettext("a fault of our own"),
    "time": lazy_gettext("its time has not come"),
    "mailbox": lazy_gettext("its sender does not exist any more"),
    "redis": lazy_gettext("Redis is away"),
    "nobody": lazy_gettext("no scheduler or worker is at work"),
    "too-large": lazy_gettext("too many recipients for a whole day: it will fail"),
    "line": lazy_gettext("others go before it"),
    "dispatch": lazy_gettext("the next dispatch takes it"),
    "campaign-paused": lazy_gettext("its campaign may not send now"),
}

#: How an attempt ended.
OUTCOMES: Final[Words] = {
    "accepted": lazy_gettext("Accepted"),
    "not-sent": lazy_gettext("Not sent"),
    "rejected": lazy_gettext("Rejected"),
    "unknown": lazy_pgettext("message", "Unknown"),
    "throttled": lazy_gettext("Slowed down"),
    "mailbox-unavailable": lazy_gettext("Mailbox unavailable"),
    "auth": lazy_gettext("Sign-in refused"),
    "fault": lazy_gettext("A fault of our own"),
    "worker-lost": lazy_gettext("Worker lost"),
    "confirmed-sent": lazy_gettext("Confirmed sent"),
    "sent-again": lazy_gettext("Sent again"),
    "given-up": lazy_gettext("Given up"),
    "restored": lazy_gettext("Restored from a backup"),
}

#: What happened to a message beside its attempts; of a wait its reason is told, and of an attempt how it ended.
HAPPENINGS: Final[Words] = {
    "handed-in": lazy_gettext("Handed in"),
    "waited": lazy_gettext("Waited"),
    "looked-for": lazy_gettext("Looked for at the provider"),
    "confirmed-sent": lazy_gettext("Confirmed sent"),
    "sent-again": lazy_gettext("Sent again"),
    "given-up": lazy_gettext("Given up"),
    "cancelled": lazy_gettext("Cancelled"),
    "discarded": lazy_gettext("Discarded"),
    "requeued": lazy_gettext("Put back to be sent again"),
    "brought-forward": lazy_gettext("Brought forward"),
    "expired": lazy_gettext("Expired"),
}

#: Through whom mail leaves.
PROVIDERS: Final[Words] = {
    "microsoft-graph": lazy_gettext("Microsoft Graph"),
    "sendgrid": lazy_gettext("SendGrid"),
    "default": lazy_gettext("The default sender"),
}

#: How long a pause may be asked to last.
PAUSES: Final[Words] = {
    "15m": lazy_gettext("15 minutes"),
    "1h": lazy_gettext("1 hour"),
    "4h": lazy_gettext("4 hours"),
    "1d": lazy_gettext("1 day"),
    "7d": lazy_gettext("7 days"),
    "resumed": lazy_gettext("Until somebody resumes"),
}

#: What a token may do.
SCOPES: Final[Words] = {
    "send": lazy_gettext("send"),
    "read": lazy_gettext("read"),
    "admin": lazy_gettext("admin"),
}

#: The same, in a sentence.
SCOPES_LONG: Final[Words] = {
    "send": lazy_gettext("hands mail in"),
    "read": lazy_gettext("looks at everything"),
    "admin": lazy_gettext("changes everything"),
}

#: What becomes of copies in Sent Items.
SENT_ITEMS: Final[Words] = {
    "keep": lazy_gettext("kept"),
    "none": lazy_gettext("none is made"),
    "prune": lazy_gettext("removed some days after a message is settled"),
}

#: Why an address gets no mail.
SUPPRESSION_REASONS: Final[Words] = {
    "hard-bounce": lazy_gettext("bounced"),
    "complaint": lazy_gettext("complained"),
    "manual": lazy_gettext("by hand"),
    "import": lazy_gettext("from a file"),
    "unsubscribe": lazy_gettext("unsubscribed"),
}

#: So many addresses were put on the suppression list.
SUPPRESSED: Final[Counted] = counted("1 address was added.", "%(number)s addresses were added.")

#: What became of one recipient of a message.
RESULTS: Final[Words] = {
    "suppressed": lazy_gettext("Left out"),
    "bounced": lazy_gettext("Bounced"),
}

#: What the message trace says of a mail at one recipient.
DELIVERIES: Final[Words] = {
    "pending": lazy_gettext("under way"),
    "delivered": lazy_gettext("delivered"),
    "expanded": lazy_gettext("passed on to a list"),
    "failed": lazy_gettext("not delivered"),
    "quarantined": lazy_gettext("in quarantine"),
    "spam": lazy_gettext("delivered as spam"),
}

#: Where an import is.
IMPORT_STATES: Final[Words] = {
    "CHECKING": lazy_gettext("Being checked"),
    "CHECKED": lazy_gettext("Checked, not queued yet"),
    "REFUSED": lazy_gettext("Refused"),
    "STORING": lazy_gettext("Being queued"),
    "DONE": lazy_pgettext("import", "Queued"),
    "UNDONE": lazy_gettext("Undone"),
}

#: What is said of a checked file, what its button says, and what is said after an undo.
IMPORT_READY: Final[Counted] = counted(
    "Every row is good: 1 message can be queued.", "Every row is good: %(number)s messages can be queued."
)
FORECAST_DONE: Final[Counted] = counted(
    "The message will have left about %(moment)s", "All %(number)s messages will have left about %(moment)s"
)
FORECAST_NEVER: Final[Counted] = counted(
    "Nobody can tell when the message will have left", "Nobody can tell when all %(number)s messages will have left"
)
IMPORT_QUEUE: Final[Counted] = counted("Queue 1 message", "Queue %(number)s messages")
IMPORT_UNDONE: Final[Counted] = counted(
    "The import is undone: 1 message was cancelled.", "The import is undone: %(number)s messages were cancelled."
)

#: What stands between the cells of a file.
DELIMITERS: Final[Words] = {
    "comma": lazy_gettext("a comma"),
    "semicolon": lazy_gettext("a semicolon"),
    "tab": lazy_gettext("a tab"),
    "bar": lazy_gettext("a vertical bar"),
}

#: Where a campaign is.
CAMPAIGN_STATES: Final[Words] = {
    "DRAFT": lazy_gettext("Draft"),
    "RUNNING": lazy_gettext("Goes out"),
    "PAUSED": lazy_gettext("Paused"),
    "CANCELLED": lazy_gettext("Cancelled"),
    "DONE": lazy_gettext("Done"),
}

#: Where a person of a campaign is.
PERSON_STATES: Final[Words] = {
    "WAITING": lazy_gettext("Waiting"),
    "HELD": lazy_gettext("Waiting: had other mail lately"),
    "SUPPRESSED": lazy_gettext("Suppressed"),
    "SCHEDULED": lazy_gettext("In line"),
    "QUEUED": lazy_gettext("Claimed"),
    "SENDING": lazy_gettext("Being sent"),
    "SENT": lazy_gettext("Sent"),
    "ERROR": lazy_gettext("Failed"),
    "UNKNOWN": lazy_gettext("Outcome unknown"),
    "CANCELLED": lazy_gettext("Cancelled"),
    "EXPIRED": lazy_gettext("Expired"),
}

#: People a campaign is for.
PEOPLE: Final[Counted] = counted("1 person", "%(number)s people")
