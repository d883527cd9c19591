"""System mailboxes: who they are, what they may send, and whether they send at all."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any, Literal

from flask import Blueprint
from pydantic import Field

from rqmail.administration.access import Scope
from rqmail.administration.fields import MAX_MESSAGE_BYTES
from rqmail.administration.mailboxes import MailboxView
from rqmail.insight.bouncing import bouncing
from rqmail.insight.checked import last_check, last_checks
from rqmail.insight.jsonable import as_json
from rqmail.ratelimit.limits import above_exchange, mailbox_key
from rqmail.ratelimit.pacing import Pacing
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel, Changes, CheckOf, Done, LeftBehindOf, Limit, Line, Moment, Pause, Whole
from rqmail.web.api.standing import SenderNow
from rqmail.web.context import application, changes

blueprint = Blueprint("mailboxes", __name__, url_prefix="/admin/system-mailboxes")

SentItems = Literal["keep", "none", "prune"]

_TAG = "System mailboxes"

MessageBytes = Annotated[
    Whole, Field(ge=1, le=MAX_MESSAGE_BYTES, description="Bytes of one message as it is sent, files as base64")
]


class Mailbox(ApiModel):
    """A system mailbox as it is configured; a limit or pacing of null means the default."""

    key: str
    address: str
    rate_limit_per_minute: int | None
    rate_limit_recipients_per_day: int | None
    pacing: Pacing | None
    max_message_bytes: int | None
    #: What becomes of the copies of sent mail; pruned ones go so many days after their mail is settled.
    sent_items: SentItems
    prune_after_days: int | None
    limits_until: datetime | None
    limits_after_per_minute: int | None
    limits_after_recipients_per_day: int | None
    paused_until: datetime | None
    pause_reason: str | None
    paused_by: str | None
    created_on: datetime
    changed_on: datetime
    #: What Microsoft said about it when it was last asked; left out by operations that do not ask.
    check: CheckOf | None = None


class AddedMailbox(Mailbox):
    """A system mailbox as it was added, and what is wrong with its limits, though they were taken."""

    warnings: list[str]


class ChangedMailbox(AddedMailbox):
    """A system mailbox as it is after a change, and what still depends on what it was before."""

    left_behind: LeftBehindOf


class Mailboxes(ApiModel):
    """All system mailboxes, by key."""

    mailboxes: list[Mailbox]


class NewMailbox(ApiModel):
    """A mailbox to add."""

    key: Line
    address: Line
    rate_limit_per_minute: Limit | None = None
    rate_limit_recipients_per_day: Limit | None = None
    pacing: Pacing | None = None
    max_message_bytes: MessageBytes | None = None
    sent_items: SentItems | None = None
    prune_after_days: Limit | None = None


class MailboxChanges(Changes):
    """What to change: a field left out keeps its value, a limit of null goes back to the default.

    With limitsUntil the limits hold until then and go back to what they were by themselves; null is for good.
    """

    address: Line = ""
    rate_limit_per_minute: Limit | None = None
    rate_limit_recipients_per_day: Limit | None = None
    pacing: Pacing | None = None
    max_message_bytes: MessageBytes | None = None
    sent_items: SentItems | None = None
    prune_after_days: Limit | None = None
    limits_until: Moment | None = None


class BouncingOf(ApiModel):
    """What came back of mail to recipients in the last seven days: rate is a share from 0 to 1, above 0.05 a warning.

    problem is why non-delivery reports cannot be read; readTo is up to when they are, null before the first look.
    """

    mailbox: str
    recipients: int
    bounced: int
    rate: float | None
    level: Literal["ok", "warning"]
    read_to: datetime | None
    problem: str | None


@blueprint.get("")
@operation(Scope.READ, _TAG, Mailboxes)
def list_mailboxes() -> Any:
    """List all system mailboxes."""
    checks = last_checks()
    return {
        "mailboxes": [
            as_json(view) | {"check": as_json(checks.get(f"mailbox:{view.key}"))}
            for view in application().mailboxes.all()
        ]
    }


@blueprint.post("")
@operation(Scope.ADMIN, _TAG, AddedMailbox, 409, status=201)
def add_mailbox(json: NewMailbox) -> Any:
    """Add a system mailbox; limits above those of Exchange Online are taken, with a warning."""
    added = changes().add_mailbox(
        json.key,
        json.address,
        rate_limit_per_minute=json.rate_limit_per_minute,
        rate_limit_recipients_per_day=json.rate_limit_recipients_per_day,
        pacing=json.pacing,
        max_message_bytes=json.max_message_bytes,
        sent_items=json.sent_items,
        prune_after_days=json.prune_after_days,
    )
    return _with_warnings(added) | {"check": as_json(application().checks.check_saved(f"mailbox:{added.key}"))}, 201


@blueprint.get("/<key>")
@operation(Scope.READ, _TAG, Mailbox, 404)
def show_mailbox(key: str) -> Any:
    """Show one system mailbox."""
    view = application().mailboxes.get(key)
    return as_json(view) | {"check": as_json(last_check(f"mailbox:{key}"))}


@blueprint.put("/<key>")
@operation(Scope.ADMIN, _TAG, ChangedMailbox, 404)
def set_mailbox(key: str, json: MailboxChanges) -> Any:
    """Change a system mailbox; workers see it within a second, without a restart.

    A field that is left out keeps its value; a limit of null clears the override. A limit that is not a positive whole
    number is refused; one above what Exchange Online allows is taken, with a warning.
    """
    changed = changes().set_mailbox(key, **json.given())
    sender = f"mailbox:{key}"
    check = application().checks.check_saved(sender) if "address" in json.given() else last_check(sender)
    left = changes().left_behind(sender)
    return _with_warnings(changed) | {"leftBehind": as_json(left), "check": as_json(check)}


@blueprint.delete("/<key>")
@operation(Scope.ADMIN, _TAG, Done, 404, 409)
def delete_mailbox(key: str) -> Any:
    """Remove a system mailbox; refused while mail of it waits or needs a decision."""
    changes().delete_mailbox(key)
    return {"done": True}


@blueprint.get("/<key>/budget")
@operation(Scope.READ, _TAG, SenderNow, 404)
def show_budget(key: str) -> Any:
    """Show what a mailbox has used and may still send, what waits, and when it will be done."""
    return as_json(application().overview.mailbox(key))


@blueprint.get("/<key>/bounces")
@operation(Scope.READ, _TAG, BouncingOf, 404)
def show_bounces(key: str) -> Any:
    """Show how much mail of a mailbox came back in the last seven days, and whether reports of that can be read."""
    app = application()
    address = mailbox_key(app.mailboxes.get(key).address)
    return as_json(bouncing([address], app.clock())[address])


@blueprint.post("/<key>/check")
@operation(Scope.ADMIN, _TAG, CheckOf, 404)
def check_mailbox(key: str) -> Any:
    """Ask Microsoft whether a mailbox exists and what we may do with it; no mail is sent."""
    application().mailboxes.get(key)
    return as_json(application().checks.check(f"mailbox:{key}"))


@blueprint.post("/<key>/pause")
@operation(Scope.ADMIN, _TAG, Mailbox, 404)
def pause_mailbox(key: str, json: Pause) -> Any:
    """Send nothing from a mailbox for a while, or until it is resumed."""
    duration = None if json.duration_seconds is None else timedelta(seconds=json.duration_seconds)
    return as_json(changes().pause_mailbox(key, json.reason, duration))


@blueprint.post("/<key>/resume")
@operation(Scope.ADMIN, _TAG, Mailbox, 404)
def resume_mailbox(key: str) -> Any:
    """End a pause: a person's, or one the provider's answers brought about."""
    return as_json(changes().resume_mailbox(key))


@blueprint.post("/<key>/reset")
@operation(Scope.ADMIN, _TAG, Mailbox, 404, 409)
def reset_mailbox(key: str) -> Any:
    """Forget what was counted against a mailbox's budget: its windows begin empty."""
    return as_json(changes().reset_mailbox(key))


def _with_warnings(view: MailboxView) -> dict[str, Any]:
    warnings = above_exchange(view.rate_limit_per_minute, view.rate_limit_recipients_per_day)
    return {**as_json(view), "warnings": warnings}
