"""Who may ask for what, what was changed by whom, and which requests have been answered already."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import peewee
from uuid_utils import uuid7

from rqmail.models.base import BaseModel, UtcDateTimeField, db, pooled_connection, to_column


class ApiToken(BaseModel):
    """A named token; of the token itself only the SHA-256 digest is kept, so a copy of the table authorises nobody."""

    name = peewee.CharField(max_length=64, primary_key=True)
    digest = peewee.CharField(max_length=64, unique=True)
    #: Scope names, separated by a space.
    scopes = peewee.CharField(max_length=40)
    created_on = UtcDateTimeField()
    created_by = peewee.CharField(max_length=80)
    expires_on = UtcDateTimeField(null=True)
    last_used_on = UtcDateTimeField(null=True)
    revoked_on = UtcDateTimeField(null=True)
    #: Keys of the only mailboxes it may hand in mail for, as a JSON array; null for every sender.
    mailboxes = peewee.TextField(null=True)

    @classmethod
    def open_at(cls, now: datetime, names: Sequence[str], noted_before: datetime) -> list[tuple[str, str, bool]]:
        """Answer which of these names' tokens open now: name, digest, and whether no use since then is noted."""
        if not names:
            return []
        # Written out by hand: it is asked for every handful of mails, and a query builder takes longer than the answer.
        sql = (
            "SELECT name, digest, last_used_on IS NULL OR last_used_on <= {0} FROM api_token"  # noqa: S608 - placeholders
            " WHERE revoked_on IS NULL"
            f" AND (expires_on IS NULL OR expires_on > {{0}}) AND name IN ({', '.join(['{0}'] * len(names))})"
        ).format(db.param)
        with pooled_connection():
            found = db.execute_sql(sql, (to_column(noted_before), to_column(now), *names)).fetchall()
        return [(name, digest, bool(is_due)) for name, digest, is_due in found]


class EndedSession(BaseModel):
    """A session somebody signed out of; kept until its cookie would have ended by itself."""

    id = peewee.CharField(max_length=64, primary_key=True)
    ended_on = UtcDateTimeField()

    class Meta:
        """Name the table in full."""

        table_name = "ended_session"


class AuditEntry(BaseModel):
    """One change a person or program made; ids sort by time, the two states are JSON with secrets already masked."""

    id = peewee.CharField(max_length=36, primary_key=True, default=lambda: str(uuid7()))
    at = UtcDateTimeField()
    who = peewee.CharField(max_length=80)
    action = peewee.CharField(max_length=40)
    subject = peewee.CharField(max_length=120)
    state_before = peewee.TextField(null=True)
    state_after = peewee.TextField(null=True)

    @classmethod
    def count_before(cls, moment: datetime) -> int:
        """Count the changes that were made before then."""
        with pooled_connection():
            return int(cls.select().where(cls.at < moment).count())

    @classmethod
    def delete_before(cls, moment: datetime, *, limit: int) -> int:
        """Delete at most ``limit`` of them, and answer how many."""
        old = cls.select(cls.id).where(cls.at < moment).limit(limit)
        with pooled_connection():
            return int(cls.delete().where(cls.id.in_(old)).execute())


#: A key is remembered for this long; after that it is as good as new.
REMEMBERED = timedelta(hours=24)


class IdempotencyKey(BaseModel):
    """What a request under this key was answered, so that the same request again adds nothing."""

    caller = peewee.CharField(max_length=80)
    key = peewee.CharField(max_length=255)
    #: SHA-256 of the request's body.
    fingerprint = peewee.CharField(max_length=64)
    #: The ids of the messages it added, as a JSON array in the request's order.
    message_ids = peewee.TextField()
    created_on = UtcDateTimeField()

    class Meta:
        """A key belongs to the one who uses it."""

        primary_key = peewee.CompositeKey("caller", "key")

    @classmethod
    def forget(cls, now: datetime) -> None:
        """Delete what has been remembered long enough."""
        with pooled_connection():
            cls.delete().where(cls.created_on <= now - REMEMBERED).execute()
