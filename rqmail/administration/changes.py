"""Every change a person or a program makes, on a page, over the API or on the command line: made here, and audited."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import IO, Any, Self

from rqmail.administration import messages
from rqmail.administration.access import Access, TokenView
from rqmail.administration.audit import BY_ITSELF, Audit
from rqmail.administration.mailboxes import Mailboxes, MailboxView
from rqmail.administration.messages import BulkActionName, Decision, Filter, MessageView
from rqmail.administration.rotation import KeyRotation, Progress, VaultReport
from rqmail.administration.tenants import TenantField, Tenants, TenantView
from rqmail.administration.webhooks import Webhooks, WebhookView
from rqmail.campaigns.suppression import SuppressionImport, SuppressionRow, Suppressions
from rqmail.campaigns.unsubscribing import Unsubscribing, Unsubscription
from rqmail.clock import Clock
from rqmail.delivery.senders import Senders
from rqmail.errors import NotFoundError
from rqmail.insight.overview import Overview
from rqmail.intake.importing import Imports
from rqmail.models import counts
from rqmail.models.base import transaction
from rqmail.models.message import MessageStatus


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A sender's messages of unknown outcome that went through what it had before an edit.

    Recovery looks for them there, with the access they went with; where that is gone (or never was: SendGrid keeps no
    mailbox) they are ``not_to_be_looked_up`` and wait for a person.
    """

    messages: int
    not_to_be_looked_up: int


@dataclass(frozen=True)
class Changes:
    """Makes changes and, in the same transaction, writes down who made them; :meth:`by` says who that is."""

    mailboxes: Mailboxes
    tenants: Tenants
    access: Access
    audit: Audit
    overview: Overview
    senders: Senders
    imports: Imports
    suppressions: Suppressions
    unsubscribing: Unsubscribing
    rotation: KeyRotation
    webhooks: Webhooks
    clock: Clock
    who: str = "nobody"

    def by(self, who: str) -> Self:
        """Answer the same changes, made in somebody's name."""
        return replace(self, who=who)

    # --- system mailboxes ---

    def add_mailbox(self, key: str, address: str, **fields: Any) -> MailboxView:
        """Add a system mailbox; ``fields`` as :meth:`~rqmail.administration.mailboxes.Mailboxes.add` takes them."""
        with self.audit.change(self.who, "mailbox.add", f"mailbox:{key}") as change:
            change.after = added = self.mailboxes.add(key, address, **fields)
        self.senders.forget()
        return added

    def set_mailbox(self, key: str, **fields: Any) -> MailboxView:
        """Change what is given of a mailbox; every process sees it within a second, without a restart."""
        return self._mailbox("set", key, lambda: self.mailboxes.set(key, **fields))

    def end_limits(self) -> list[str]:
        """Let limits whose time is over go back to what they were; answer the keys of their mailboxes."""
        ended = self.mailboxes.with_ended_limits()
        for key in ended:
            self.by(BY_ITSELF)._mailbox("limits-ended", key, partial(self.mailboxes.end_limits, key))
        return ended

    def delete_mailbox(self, key: str) -> None:
        """Remove a mailbox; raises ``ConflictError`` while mail of it waits or needs a decision."""
        with self.audit.change(self.who, "mailbox.delete", f"mailbox:{key}") as change:
            change.before = self.mailboxes.get(key)
            self.mailboxes.delete(key)
        self.senders.forget()

    def pause_mailbox(self, key: str, reason: str, duration: timedelta | None) -> MailboxView:
        """Send nothing from a mailbox for ``duration``, or until it is resumed."""
        pause = self.mailboxes.pause
        return self._mailbox("pause", key, lambda: pause(key, reason=reason, duration=duration, by=self.who))

    def resume_mailbox(self, key: str) -> MailboxView:
        """End a pause: a person's, or one the provider's answers brought about."""
        return self._mailbox("resume", key, lambda: self.mailboxes.resume(key))

    def reset_mailbox(self, key: str) -> MailboxView:
        """Forget what was counted against a mailbox's budget."""
        with self.audit.change(self.who, "mailbox.reset", f"mailbox:{key}") as change:
            change.before = self.overview.mailbox(key).budget
            same = self.mailboxes.reset(key)
            change.after = self.overview.mailbox(key).budget
        return same

    def _mailbox(self, verb: str, key: str, act: Callable[[], MailboxView]) -> MailboxView:
        with self.audit.change(self.who, f"mailbox.{verb}", f"mailbox:{key}") as change:
            change.before = self.mailboxes.get(key)
            change.after = changed = act()
        self.senders.forget()
        return changed

    # --- tenants ---

    def add_tenant(self, key: str, provider: str, **fields: TenantField) -> TenantView:
        """Add a tenant's mail setting."""
        with self.audit.change(self.who, "tenant.add", f"tenant:{key}") as change:
            change.after = added = self.tenants.add(key, provider, **fields)
        self.senders.forget()
        return added

    def set_tenant(self, key: str, **fields: TenantField) -> TenantView:
        """Change what is given of a tenant's mail setting."""
        return self._tenant("set", key, lambda: self.tenants.set(key, **fields))

    def delete_tenant(self, key: str) -> None:
        """Remove a tenant's mail setting; raises ``ConflictError`` while mail of it waits or needs a decision."""
        with self.audit.change(self.who, "tenant.delete", f"tenant:{key}") as change:
            change.before = self.tenants.get(key)
            self.tenants.delete(key)
        self.senders.forget()

    def left_behind(self, sender: str) -> LeftBehind:
        """Count what depends on what this sender (``mailbox:KEY``, ``tenant:KEY``) had before; ask after an edit."""
        now = self.senders.find(sender).route.place
        messages = not_to_be_looked_up = 0
        for route, number in counts.unknown_by_route(sender).items():
            if route is not None and route != now:
                messages += number
                not_to_be_looked_up += 0 if self.senders.can_look(route) else number
        return LeftBehind(messages, not_to_be_looked_up)

    def pause_tenant(self, key: str, reason: str, duration: timedelta | None) -> TenantView:
        """Send nothing of a tenant's mail for ``duration``, or until it is resumed."""
        pause = self.tenants.pause
        return self._tenant("pause", key, lambda: pause(key, reason=reason, duration=duration, by=self.who))

    def resume_tenant(self, key: str) -> TenantView:
        """End a pause: a person's, or one the provider's answers brought about."""
        return self._tenant("resume", key, lambda: self.tenants.resume(key))

    def _tenant(self, verb: str, key: str, act: Callable[[], TenantView]) -> TenantView:
        with self.audit.change(self.who, f"tenant.{verb}", f"tenant:{key}") as change:
            change.before = self.tenants.get(key)
            change.after = changed = act()
        self.senders.forget()
        return changed

    # --- tokens ---

    def create_token(
        self, name: str, scopes: Iterable[str], expires_on: datetime | None, mailboxes: Iterable[str] = ()
    ) -> tuple[TokenView, str]:
        """Issue a named token; what is answered is the only place it is ever shown."""
        with self.audit.change(self.who, "token.create", f"token:{name}") as change:
            made = self.access.create(name, scopes, by=self.who, expires_on=expires_on, mailboxes=mailboxes)
            change.after = made[0]
        return made

    def revoke_token(self, name: str) -> TokenView:
        """Revoke this token."""
        with self.audit.change(self.who, "token.revoke", f"token:{name}") as change:
            change.before = self.access.token(name)
            change.after = revoked = self.access.revoke(name)
        return revoked

    # --- webhooks ---

    def add_webhook(self, url: str, events: Iterable[str]) -> tuple[WebhookView, str]:
        """Tell an address of these events from now on; the secret in the answer is shown here alone."""
        with self.audit.change(self.who, "webhook.add", "webhooks") as change:
            made = self.webhooks.add(url, events, by=self.who)
            change.after = made[0]
        return made

    def remove_webhook(self, webhook_id: str) -> WebhookView:
        """Tell a webhook nothing more; answer what it was."""
        with self.audit.change(self.who, "webhook.remove", f"webhook:{webhook_id}") as change:
            change.before = removed = self.webhooks.remove(webhook_id)
        return removed

    def enable_webhook(self, webhook_id: str, *, enabled: bool) -> WebhookView:
        """Tell a webhook again, or for the time being nothing."""
        verb = "enable" if enabled else "disable"
        with self.audit.change(self.who, f"webhook.{verb}", f"webhook:{webhook_id}") as change:
            change.before = self.webhooks.get(webhook_id)
            change.after = changed = self.webhooks.enable(webhook_id, enabled=enabled)
        return changed

    def redeliver_webhook(self, webhook_id: str, event_ids: Sequence[str] | None) -> int:
        """Deliver these events to a webhook again, or with ``None`` all that it has not taken."""
        with self.audit.change(self.who, "webhook.redeliver", f"webhook:{webhook_id}") as change:
            number = self.webhooks.redeliver(webhook_id, event_ids)
            change.after = {"redelivered": number}
        return number

    # --- messages ---

    def cancel_message(self, message_id: str) -> MessageView:
        """Cancel a message that has not begun, or discard one that is UNKNOWN."""
        return self._message("cancel", message_id, lambda: messages.cancel(message_id, self.clock(), self.who))

    def requeue_message(self, message_id: str) -> MessageView:
        """Send again a message that ended in ERROR, CANCELLED or EXPIRED."""
        return self._message("requeue", message_id, lambda: messages.requeue(message_id, self.clock(), self.who))

    def send_message_now(self, message_id: str) -> MessageView:
        """Make a waiting message due at once; the budget still holds."""
        return self._message("send-now", message_id, lambda: messages.send_now(message_id, self.clock(), self.who))

    def resolve_message(self, message_id: str, decision: Decision) -> MessageView:
        """Decide about an UNKNOWN message."""
        now = self.clock()
        return self._message(
            f"resolve.{decision}", message_id, lambda: messages.resolve(message_id, decision, now, self.who)
        )

    def bulk(self, action: BulkActionName, wanted: Filter, shown: dict[str, Any]) -> int:
        """Do the same to every message that matches and is in a state that allows it; answer how many were moved.

        ``shown`` is the filter as it is written down, before anything is moved: it may be interrupted half-way.
        """
        with self.audit.change(self.who, f"messages.{action}", "messages") as change:
            change.before = {"filter": shown, "matched": messages.count(wanted)}
        affected = messages.act_on_all(action, wanted, self.clock(), self.who)
        with self.audit.change(self.who, f"messages.{action}.done", "messages") as change:
            change.after = {"affected": affected}
        return affected

    def rotate_vault(self, progress: Progress | None = None) -> VaultReport:
        """Encrypt with the present key what a former one encrypted; written down before and after."""
        with self.audit.change(self.who, "vault.rotate", "vault") as change:
            change.before = self.rotation.status()
        report = self.rotation.rotate(progress)
        with self.audit.change(self.who, "vault.rotate.done", "vault") as change:
            change.after = report
        return report

    def undo_import(self, import_id: str) -> int:
        """Cancel every message of an import, and answer how many they were.

        Raises ``ConflictError`` when one of them has been sent, or may have been: then nothing is changed.
        """
        with self.audit.change(self.who, "import.undo", f"import:{import_id}") as change:
            change.before = {"state": self.imports.find(import_id).state}
            cancelled = self.imports.by(self.who).undo(import_id)
            change.after = {"state": self.imports.find(import_id).state, "cancelled": cancelled}
        return cancelled

    # --- the suppression list ---

    def suppress(self, address: str, *, tenant: str | None, reason: str) -> SuppressionRow:
        """Let an address get no mail from now on, of all senders or of one tenant."""
        with self.audit.change(self.who, "suppression.add", _suppressed(address, tenant)) as change:
            with suppress(NotFoundError):
                change.before = self.suppressions.get(address, tenant=tenant)
            change.after = added = self.suppressions.add(address, tenant=tenant, reason=reason, source=self.who)
        return added

    def unsuppress(self, address: str, *, tenant: str | None) -> SuppressionRow:
        """Let an address get mail again; answer what stood against it."""
        with self.audit.change(self.who, "suppression.remove", _suppressed(address, tenant)) as change:
            change.before = removed = self.suppressions.remove(address, tenant=tenant)
        return removed

    def unsubscribe(self, found: Unsubscription) -> None:
        """Let who a link is for get no mail from now on; what they did before is not written down again."""
        subject = _suppressed(found.address, found.scope.removeprefix("tenant:") if ":" in found.scope else None)
        with transaction():
            if self.unsubscribing.unsubscribe(found):
                with self.audit.change("recipient", "suppression.unsubscribe", subject) as change:
                    change.after = found

    def import_suppressions(
        self, file: IO[bytes], name: str, *, tenant: str | None, reason: str, dry_run: bool
    ) -> SuppressionImport:
        """Let every address of a file get no mail from now on, all or none of them."""
        source = f"{self.who}: {name}" if name else self.who
        if dry_run:
            return self.suppressions.take(file, source=source, tenant=tenant, reason=reason, dry_run=True)
        with self.audit.change(self.who, "suppression.import", _suppressed("", tenant)) as change:
            report = self.suppressions.take(file, source=source, tenant=tenant, reason=reason)
            change.after = {"file": name, "rows": report.rows, "added": report.added, "errors": report.error_count}
        return report

    def count_bulk(self, action: BulkActionName, wanted: Filter) -> int:
        """Count the messages that :meth:`bulk` would move now."""
        return messages.count_of(action, wanted, self.clock())

    def count_bulk_of_each(self, action: BulkActionName, wanted: Filter) -> dict[MessageStatus, int]:
        """Count the messages that :meth:`bulk` would move now, for each status that has any."""
        return messages.count_of_each(action, wanted, self.clock())

    def _message(self, action: str, message_id: str, act: Callable[[], MessageView]) -> MessageView:
        with self.audit.change(self.who, f"message.{action}", f"message:{message_id}") as change:
            change.before = {"status": messages.show(message_id).status}
            acted = act()
            change.after = {"status": acted.status}
        return acted


def _suppressed(address: str, tenant: str | None) -> str:
    """Name an entry of the list, or a whole list without an address, as the audit does."""
    of = "" if tenant is None else f"tenant:{tenant}"
    return "suppression:" + " ".join(filter(None, [address.strip()[:80], of]))
