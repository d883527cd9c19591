"""System mailboxes: who may send, how much, and whether they send at all."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from rqmail.administration.fields import (
    UNSET,
    Unset,
    checked_key,
    checked_limit,
    checked_message_bytes,
    checked_pacing,
    checked_prune_days,
    checked_sent_items,
    checked_text,
    refuse_while_open,
)
from rqmail.administration.pausing import Pausing
from rqmail.clock import Clock
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.intake.addresses import check_address
from rqmail.models import events
from rqmail.models.base import pooled_connection, transaction
from rqmail.models.mailbox import SenderCheck, SentItems, SystemMailbox, unmarked_mailboxes
from rqmail.models.pruning import SentPruning
from rqmail.ratelimit.limiter import MailRateLimiter
from rqmail.ratelimit.limits import mailbox_key, own_limit

#: Limits that hold until a moment end within this time: longer is for good.
_LONGEST_EXCEPTION = timedelta(days=366)

_FOR_GOOD: dict[str, Any] = {
    "limits_until": None,
    "limits_after_per_minute": None,
    "limits_after_recipients_per_day": None,
}


@dataclass(frozen=True, slots=True)
class MailboxView:
    """A system mailbox as it is configured; a limit, pacing or size of ``None`` means the default.

    Where ``limits_until`` is set, the two limits hold until then and go back to the two ``limits_after`` by themselves.
    """

    key: str
    address: str
    rate_limit_per_minute: int | None
    rate_limit_recipients_per_day: int | None
    pacing: str | None
    max_message_bytes: int | None
    sent_items: str
    prune_after_days: int | None
    limits_until: datetime | None
    limits_after_per_minute: int | None
    limits_after_recipients_per_day: int | None
    paused_until: datetime | None
    pause_reason: str | None
    paused_by: str | None
    created_on: datetime
    changed_on: datetime


@dataclass(frozen=True, slots=True)
class PruningView:
    """How far a mailbox's Sent Items are pruned; a ``problem`` has paused that until ``next_on``."""

    pruned_on: datetime | None
    next_on: datetime
    removed: int
    problem: str | None


class Mailboxes:
    """Adds, changes, pauses and removes system mailboxes; an edit holds for every process within a second or two."""

    def __init__(self, clock: Clock, limiter: MailRateLimiter) -> None:
        self._clock = clock
        self._limiter = limiter
        self._pausing = Pausing(clock, limiter)

    def all(self) -> list[MailboxView]:
        """List all system mailboxes by key."""
        with pooled_connection():
            return [self._view(row) for row in SystemMailbox.select().order_by(SystemMailbox.key)]

    def get(self, key: str) -> MailboxView:
        """Answer one system mailbox."""
        return self._view(_row(key))

    def takes_no_property(self, key: str) -> datetime | None:
        """Answer since when the mailbox can create no more named properties, if so; its mail goes without ours."""
        return unmarked_mailboxes(self._clock()).get(mailbox_key(self.get(key).address))

    def pruning(self, key: str) -> PruningView | None:
        """Answer how far a mailbox's Sent Items are pruned; ``None`` before the first pass."""
        row = SentPruning.of(key)
        return None if row is None else PruningView(row.pruned_on, row.next_on, row.removed, row.problem)

    def add(
        self,
        key: str,
        address: str,
        *,
        rate_limit_per_minute: int | None = None,
        rate_limit_recipients_per_day: int | None = None,
        pacing: str | None = None,
        max_message_bytes: int | None = None,
        sent_items: str | None = None,
        prune_after_days: int | None = None,
    ) -> MailboxView:
        """Add a system mailbox; raises ``ConflictError`` when the key is taken."""
        now = self._clock()
        row = {
            "key": checked_key(key),
            "address": check_address(address, "address"),
            "rate_limit_per_minute": checked_limit("rateLimitPerMinute", rate_limit_per_minute),
            "rate_limit_recipients_per_day": checked_limit("rateLimitRecipientsPerDay", rate_limit_recipients_per_day),
            "pacing": checked_pacing(pacing),
            "max_message_bytes": checked_message_bytes(max_message_bytes),
            "sent_items": checked_sent_items(sent_items),
            "prune_after_days": checked_prune_days(sent_items, prune_after_days),
            "created_on": now,
            "changed_on": now,
        }
        with transaction():
            added = list(SystemMailbox.insert(**row).on_conflict_ignore().returning(SystemMailbox.key).execute())
        if not added:
            raise ConflictError(f"mailbox {key!r} exists already")
        return self.get(key)

    def set(
        self,
        key: str,
        *,
        address: str | Unset = UNSET,
        rate_limit_per_minute: int | Unset | None = UNSET,
        rate_limit_recipients_per_day: int | Unset | None = UNSET,
        pacing: str | Unset | None = UNSET,
        max_message_bytes: int | Unset | None = UNSET,
        limits_until: datetime | Unset | None = UNSET,
        sent_items: str | Unset | None = UNSET,
        prune_after_days: int | Unset | None = UNSET,
    ) -> MailboxView:
        """Change what is given; a limit or pacing of ``None`` goes back to the default.

        With ``limits_until`` the limits that are given hold until then and go back to what they were; with ``None``
        they hold for good.
        """
        changes: dict[str, Any] = {}
        if address is not UNSET:
            changes["address"] = check_address(checked_text("address", address), "address")
        if rate_limit_per_minute is not UNSET:
            changes["rate_limit_per_minute"] = checked_limit("rateLimitPerMinute", rate_limit_per_minute)
        if rate_limit_recipients_per_day is not UNSET:
            changes["rate_limit_recipients_per_day"] = checked_limit(
                "rateLimitRecipientsPerDay", rate_limit_recipients_per_day
            )
        if pacing is not UNSET:
            changes["pacing"] = checked_pacing(pacing)
        if max_message_bytes is not UNSET:
            changes["max_message_bytes"] = checked_message_bytes(max_message_bytes)
        before = _row(key)
        if sent_items is not UNSET or prune_after_days is not UNSET:
            changes |= _sent_items(before, sent_items, prune_after_days)
        if limits_until is not UNSET:
            changes |= self._until(before, limits_until)
        self._update(key, changes)
        if {"sent_items", "prune_after_days", "address"} & set(changes):
            SentPruning.forget(key)
        after = self.get(key)
        if before.paused_until is not None and mailbox_key(before.address) != mailbox_key(after.address):
            budget_key, reason = mailbox_key(after.address), before.pause_reason or ""
            self._pausing.keep(budget_key, before.paused_until, reason, before.paused_by)
        return after

    def with_ended_limits(self) -> list[str]:
        """List the keys of the mailboxes whose limits were to hold until a moment that has passed."""
        with pooled_connection():
            ended = SystemMailbox.select(SystemMailbox.key).where(SystemMailbox.limits_until <= self._clock())
            return [row.key for row in ended]

    def end_limits(self, key: str) -> MailboxView:
        """Let limits that were to hold until a moment go back to what they were, if that moment has passed."""
        row = _row(key)
        back = {
            "rate_limit_per_minute": row.limits_after_per_minute,
            "rate_limit_recipients_per_day": row.limits_after_recipients_per_day,
        }
        now = self._clock()
        with transaction():
            ended = (SystemMailbox.key == key) & (SystemMailbox.limits_until <= now)
            SystemMailbox.update(**back, **_FOR_GOOD, changed_on=now).where(ended).execute()
        return self.get(key)

    def delete(self, key: str) -> None:
        """Remove a mailbox; raises ``ConflictError`` while mail of it waits or needs a decision."""
        with transaction():
            _row(key)
            refuse_while_open(f"mailbox:{key}")
            SystemMailbox.delete().where(SystemMailbox.key == key).execute()
            SenderCheck.delete().where(SenderCheck.sender == f"mailbox:{key}").execute()
            SentPruning.forget(key)

    def pause(self, key: str, *, reason: str, duration: timedelta | None = None, by: str | None = None) -> MailboxView:
        """Send nothing from the mailbox for ``duration``, or until it is resumed; replaces an earlier pause.

        ``by`` is who wants it.
        """
        row = _row(key)
        until, reason = self._pausing.asked(reason, duration)
        end = None if duration is None else until
        with transaction():
            self._update(key, {"paused_until": until, "pause_reason": reason, "paused_by": by})
            events.tell_of_pause(f"mailbox:{key}", reason, end, self._clock(), by=by)
        self._pausing.begin(mailbox_key(row.address), until, reason, by)
        return self.get(key)

    def resume(self, key: str) -> MailboxView:
        """End a pause, a person's or one that the provider's answers brought about."""
        row = _row(key)
        self._update(key, {"paused_until": None, "pause_reason": None, "paused_by": None})
        self._pausing.end(mailbox_key(row.address))
        return self.get(key)

    def reset(self, key: str) -> MailboxView:
        """Forget what was counted against the mailbox's budget: its windows begin empty. Pauses stay.

        Raises ``ConflictError`` while Redis, where it is counted, cannot be told.
        """
        row = _row(key)
        if not self._limiter.reset(mailbox_key(row.address)):
            raise ConflictError(f"mailbox {key!r} was not reset: Redis cannot be reached")
        return self.get(key)

    def _until(self, row: SystemMailbox, until: datetime | None) -> dict[str, Any]:
        if until is None:
            return _FOR_GOOD
        now = self._clock()
        if not now < until <= now + _LONGEST_EXCEPTION:
            allowed = f"a moment that is still to come, at most {_LONGEST_EXCEPTION.days} days away"
            raise InvalidInputError("limitsUntil", until.isoformat(), allowed)
        if row.limits_until is not None:
            return {"limits_until": until}  # what they go back to stays what it was before the first change
        return {
            "limits_until": until,
            "limits_after_per_minute": own_limit(row.rate_limit_per_minute),
            "limits_after_recipients_per_day": own_limit(row.rate_limit_recipients_per_day),
        }

    def _update(self, key: str, changes: dict[str, Any]) -> None:
        if not changes:
            return
        changes["changed_on"] = self._clock()
        with transaction():
            SystemMailbox.update(**changes).where(SystemMailbox.key == key).execute()

    def _view(self, row: SystemMailbox) -> MailboxView:
        paused = row.paused_until is not None and row.paused_until > self._clock()
        return MailboxView(
            key=row.key,
            address=row.address,
            rate_limit_per_minute=own_limit(row.rate_limit_per_minute),
            rate_limit_recipients_per_day=own_limit(row.rate_limit_recipients_per_day),
            pacing=row.pacing,
            max_message_bytes=row.max_message_bytes,
            sent_items=row.sent_items or SentItems.KEEP.value,
            prune_after_days=row.prune_after_days,
            limits_until=row.limits_until,
            limits_after_per_minute=row.limits_after_per_minute,
            limits_after_recipients_per_day=row.limits_after_recipients_per_day,
            paused_until=row.paused_until if paused else None,
            pause_reason=row.pause_reason if paused else None,
            paused_by=row.paused_by if paused else None,
            created_on=row.created_on,
            changed_on=row.changed_on,
        )


def _sent_items(row: SystemMailbox, mode: str | Unset | None, days: int | Unset | None) -> dict[str, Any]:
    """Answer what to write where one of the two is given: the other stays, and both have to fit."""
    wanted = row.sent_items if mode is UNSET else checked_sent_items(mode)
    kept = row.prune_after_days if days is UNSET else days
    return {"sent_items": wanted, "prune_after_days": checked_prune_days(wanted, kept)}


def _row(key: str) -> SystemMailbox:
    with pooled_connection():
        row = SystemMailbox.get_or_none(SystemMailbox.key == key)
    if row is None:
        raise NotFoundError("mailbox", key)
    return row
