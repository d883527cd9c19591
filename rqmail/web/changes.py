"""Every change that is made through the web, by a program or on a page: made once, audited the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any, Literal

from rqmail import messages
from rqmail.access import TokenView
from rqmail.administration import MailboxView, TenantView
from rqmail.messages import Decision, Filter, MessageView
from rqmail.web.context import application, who

BulkActionName = Literal["cancel", "requeue", "send-now", "confirm-sent", "resend", "discard"]

# --- system mailboxes ----------------------------------------------------------------------------------------------


def add_mailbox(key: str, address: str, **limits: int | None) -> MailboxView:
    """Add a system mailbox; ``limits`` as :meth:`~rqmail.administration.Administration.add_mailbox` takes them."""
    app = application()
    with app.audit.change(who(), "mailbox.add", f"mailbox:{key}") as change:
        change.after = added = app.administration.add_mailbox(key, address, **limits)
    app.senders.forget()
    return added


def set_mailbox(key: str, **fields: Any) -> MailboxView:
    """Change what is given of a mailbox; every process sees it within a second, without a restart."""
    return _mailbox("set", key, lambda: application().administration.set_mailbox(key, **fields))


def delete_mailbox(key: str) -> None:
    """Remove a mailbox; raises ``ConflictError`` while mail of it waits or needs a decision."""
    app = application()
    with app.audit.change(who(), "mailbox.delete", f"mailbox:{key}") as change:
        change.before = app.administration.mailbox(key)
        app.administration.delete_mailbox(key)
    app.senders.forget()


def pause_mailbox(key: str, reason: str, duration: timedelta | None) -> MailboxView:
    """Send nothing from a mailbox for ``duration``, or until it is resumed."""
    pause = application().administration.pause_mailbox
    return _mailbox("pause", key, lambda: pause(key, reason=reason, duration=duration))


def resume_mailbox(key: str) -> MailboxView:
    """End a pause: a person's, or one the provider's answers brought about."""
    return _mailbox("resume", key, lambda: application().administration.resume_mailbox(key))


def reset_mailbox(key: str) -> MailboxView:
    """Forget what was counted against a mailbox's budget."""
    app = application()
    with app.audit.change(who(), "mailbox.reset", f"mailbox:{key}") as change:
        change.before = app.overview.mailbox(key).budget
        same = app.administration.reset_mailbox(key)
        change.after = app.overview.mailbox(key).budget
    return same


def _mailbox(verb: str, key: str, act: Callable[[], MailboxView]) -> MailboxView:
    app = application()
    with app.audit.change(who(), f"mailbox.{verb}", f"mailbox:{key}") as change:
        change.before = app.administration.mailbox(key)
        change.after = changed = act()
    app.senders.forget()
    return changed


# --- tenants -------------------------------------------------------------------------------------------------------


def add_tenant(key: str, provider: str, **fields: str | None) -> TenantView:
    """Add a tenant's mail setting."""
    app = application()
    with app.audit.change(who(), "tenant.add", f"tenant:{key}") as change:
        change.after = added = app.administration.add_tenant(key, provider, **fields)
    app.senders.forget()
    return added


def set_tenant(key: str, **fields: str | None) -> TenantView:
    """Change what is given of a tenant's mail setting."""
    app = application()
    with app.audit.change(who(), "tenant.set", f"tenant:{key}") as change:
        change.before = app.administration.tenant(key)
        change.after = changed = app.administration.set_tenant(key, **fields)
    app.senders.forget()
    return changed


def delete_tenant(key: str) -> None:
    """Remove a tenant's mail setting; raises ``ConflictError`` while mail of it waits or needs a decision."""
    app = application()
    with app.audit.change(who(), "tenant.delete", f"tenant:{key}") as change:
        change.before = app.administration.tenant(key)
        app.administration.delete_tenant(key)
    app.senders.forget()


# --- tokens --------------------------------------------------------------------------------------------------------


def create_token(name: str, scopes: Iterable[str], expires_on: datetime | None) -> tuple[TokenView, str]:
    """Issue a named token; what is answered is the only place it is ever shown."""
    app = application()
    with app.audit.change(who(), "token.create", f"token:{name}") as change:
        made = app.access.create(name, scopes, by=who(), expires_on=expires_on)
        change.after = made[0]
    return made


def revoke_token(name: str) -> TokenView:
    """Let nobody in with this token any more."""
    app = application()
    with app.audit.change(who(), "token.revoke", f"token:{name}") as change:
        change.before = app.access.token(name)
        change.after = revoked = app.access.revoke(name)
    return revoked


# --- messages ------------------------------------------------------------------------------------------------------


def cancel_message(message_id: str) -> MessageView:
    """Cancel a message that has not begun, or discard one that is UNKNOWN."""
    return _message("cancel", message_id, lambda: messages.cancel(message_id))


def requeue_message(message_id: str) -> MessageView:
    """Send again a message that ended in ERROR, CANCELLED or EXPIRED."""
    return _message("requeue", message_id, lambda: messages.requeue(message_id, application().clock()))


def send_message_now(message_id: str) -> MessageView:
    """Make a waiting message due at once; the budget still holds."""
    return _message("send-now", message_id, lambda: messages.send_now(message_id, application().clock()))


def resolve_message(message_id: str, decision: Decision) -> MessageView:
    """Decide about an UNKNOWN message."""
    now = application().clock()
    return _message(f"resolve.{decision}", message_id, lambda: messages.resolve(message_id, decision, now))


def bulk(action: BulkActionName, wanted: Filter, shown: dict[str, Any]) -> int:
    """Do the same to every message that matches and is in a state that allows it; answer how many were moved.

    ``shown`` is the filter as it is written down, before anything is moved: it may be interrupted half-way.
    """
    app = application()
    with app.audit.change(who(), f"messages.{action}", "messages") as change:
        change.before = {"filter": shown, "matched": messages.count(wanted)}
    affected = _move(action, wanted, app.clock(), dry_run=False)
    with app.audit.change(who(), f"messages.{action}.done", "messages") as change:
        change.after = {"affected": affected}
    return affected


def count_bulk(action: BulkActionName, wanted: Filter) -> int:
    """Count the messages that :func:`bulk` would move now."""
    return _move(action, wanted, application().clock(), dry_run=True)


def _message(action: str, message_id: str, act: Callable[[], MessageView]) -> MessageView:
    with application().audit.change(who(), f"message.{action}", f"message:{message_id}") as change:
        change.before = {"status": messages.show(message_id).status}
        acted = act()
        change.after = {"status": acted.status}
    return acted


def _move(action: BulkActionName, wanted: Filter, now: datetime, *, dry_run: bool) -> int:
    match action:
        case "cancel":
            return messages.cancel_all(wanted, dry_run=dry_run)
        case "requeue":
            return messages.requeue_all(wanted, now, dry_run=dry_run)
        case "send-now":
            return messages.send_all_now(wanted, now, dry_run=dry_run)
        case "confirm-sent":
            return messages.resolve_all(wanted, Decision.SENT, now, dry_run=dry_run)
        case "resend":
            return messages.resolve_all(wanted, Decision.RESEND, now, dry_run=dry_run)
        case "discard":
            return messages.resolve_all(wanted, Decision.DISCARD, now, dry_run=dry_run)
