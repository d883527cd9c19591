"""Moves before a send: messages are claimed, their sending begins, and what was not sent is put back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from rqmail.models.base import db, is_postgresql, pooled_connection, to_column, transaction
from rqmail.models.history import Route
from rqmail.models.row import MessageRow, these
from rqmail.models.states import MessageStatus

_S = MessageStatus

#: The limiter refused it when it was to be sent: it keeps its place in the line. As the partial index says it.
REFUSED = "waiting_for IN ('minute', 'day')"


@dataclass(frozen=True, slots=True)
class Claim:
    """A message moved from SCHEDULED to QUEUED, and what it will take from its mailbox's budget."""

    id: str
    recipient_count: int


class UploadRoom(NamedTuple):
    """How many bytes may be uploaded now, and in a whole window: a mail that is larger than that takes all of it."""

    left: int
    window: int


class ExternalRoom(NamedTuple):
    """How many external recipients may be addressed now, and in a whole day; whose domain is ``internal`` is none."""

    left: int
    day: int
    internal: frozenset[str]


#: So far past the external mail that has to wait the line is searched for mail that may go.
_LOOK_PAST = 200


class Claims(list[Claim]):
    """Messages claimed, in the order they are to be sent.

    ``recipients`` is what they take of the room there was, ``waits`` the first one for which there was not enough.
    ``uploads`` is what they upload, and with ``upload_waits`` one was passed over whose files do not fit: mail that
    uploads nothing goes past it, and no other upload does; so it is with ``external`` recipients.
    """

    def __init__(self) -> None:
        super().__init__()
        self.recipients = 0
        self.waits: Claim | None = None
        self.uploads = 0
        self.upload_waits = False
        self.external = 0
        self.external_waits = False


class ClaimMoves(MessageRow):
    """SCHEDULED → QUEUED → SENDING, and back untouched."""

    @classmethod
    def claim_due(
        cls,
        sender: str,
        priority: int,
        *,
        now: datetime,
        calls: int,
        recipients: int | None,
        job_id: str,
        lease: timedelta,
        beside: Sequence[str] = (),
        refused: bool = False,
        never_more_than: int | None = None,
        uploads: UploadRoom | None = None,
        external: ExternalRoom | None = None,
        mailbox_key: str | None = None,
    ) -> Claims:
        """Move due messages of one priority to QUEUED, oldest first, and answer them.

        ``beside`` are further senders of the same mailbox: all of them stand in one line, by time. At most ``calls``
        messages, and (unless ``None``) at most ``recipients`` recipients together: the first that does not fit ends
        the claim, so that a large message is not overtaken by small ones. A message that has expired, or has more
        recipients than ``never_more_than``, takes none of that room: it is claimed so that it comes to its end. With
        ``refused`` only what the limiter refused before is looked at. What ``uploads`` or ``external`` has no room for
        is passed over.
        """
        moment = to_column(now)

        def line(condition: str, most: int = calls) -> list[Any]:
            select = (
                "SELECT id, recipient_count, scheduled_on,"  # noqa: S608 - only placeholders and constants are put in
                f" expires_on IS NOT NULL AND expires_on <= {db.param}, upload_bytes FROM message"
                f" WHERE status = 'SCHEDULED' AND sender = {db.param} AND priority = {db.param}"
                f" AND scheduled_on <= {db.param}{f' AND {REFUSED}' if refused else ''}{condition}"
                f" ORDER BY scheduled_on, id LIMIT {db.param}{' FOR UPDATE SKIP LOCKED' if is_postgresql() else ''}"
            )
            found = [
                row
                for name in (sender, *beside)
                for row in db.execute_sql(select, (moment, name, priority, moment, most)).fetchall()
            ]
            return sorted(found, key=lambda row: (row[2], row[0]))[:most]

        with transaction():
            first = line("")
            claims = _fitting(Claims(), first, recipients, never_more_than, uploads, external)
            if claims.external_waits and claims.waits is None and len(claims) < calls:
                seen = {row[0] for row in first}
                behind = [row for row in line("", calls + _LOOK_PAST) if row[0] not in seen]
                _fitting(claims, behind, recipients, never_more_than, uploads, external, most=calls)
            if claims.upload_waits and claims.waits is None and len(claims) < calls:
                # What was passed over took places in the line: who uploads nothing and stands behind it has its turn.
                behind = [row for row in line(" AND upload_bytes IS NULL") if row[0] not in {one.id for one in claims}]
                _fitting(claims, behind[: calls - len(claims)], recipients, never_more_than, None, external)
            if claims:
                cls._enter(
                    _S.QUEUED,
                    *these(claim.id for claim in claims),
                    job_id=job_id,
                    mailbox_key=mailbox_key,
                    lease_until=now + lease,
                )
        return claims

    @classmethod
    def start_sending(
        cls, ids: Sequence[str], *, claim: str, now: datetime, lease_until: datetime, route: Route | None = None
    ) -> set[str]:
        """Move QUEUED → SENDING under ``claim`` and answer which were moved: another got to the others first.

        ``route`` is what they are about to go through; none where nobody knows their sender any more.
        """
        began: dict[str, Any] = {"claim": claim, "attempted_on": now, "lease_until": lease_until, "job_id": None}
        if route is not None:
            began |= {name: getattr(route, name) for name in Route.__slots__}
        return set(cls._enter(_S.SENDING, *these(ids), **began))

    def may_begin(self, now: datetime) -> bool:
        """Say whether a request for a message that is SENDING may still be begun: its lease must hold until the answer.

        Half of the lease is for the request itself and for clocks that differ.
        """
        began, until = self.prolonged_on or self.attempted_on, self.lease_until
        return began is not None and until is not None and now < began + (until - began) / 2

    def prolong(self, now: datetime, until: datetime) -> bool:
        """Have recovery leave a message that is SENDING alone until then; ``False`` where the claim is lost."""
        cls = type(self)
        mine = (cls.id == self.id) & (cls.claim == self.claim) & cls.now_in(_S.SENDING)
        statement = cls.update(lease_until=until).where(mine)
        with pooled_connection():
            if not statement.execute():
                return False
        self.prolonged_on, self.lease_until = now, until
        return True

    def will_take(self, upload_bytes: int, external_count: int | None) -> None:
        """Write down what this attempt takes beside a call and its recipients, where the row says otherwise.

        That is the bytes of files it uploads, and its external recipients where its mailbox shares a budget of them.
        """
        told = (upload_bytes or None, external_count)
        if told != (self.upload_bytes, self.external_count):
            cls = type(self)
            self.upload_bytes, self.external_count = told
            with pooled_connection():
                cls.update(upload_bytes=told[0], external_count=told[1]).where(
                    (cls.id == self.id) & (cls.claim == self.claim)
                ).execute()

    def is_claimed(self) -> bool:
        """Read whether the row is still SENDING under the claim this one was started with."""
        sql = f"SELECT 1 FROM message WHERE id = {db.param} AND claim = {db.param} AND status = 'SENDING'"  # noqa: S608
        with pooled_connection():
            return db.execute_sql(sql, (self.id, self.claim)).fetchone() is not None

    @classmethod
    def put_back(cls, ids: Iterable[str], job_id: str | None = None) -> list[str]:
        """Move QUEUED messages back to SCHEDULED, as if never claimed; with ``job_id`` only those it carries."""
        where, values = these(ids)
        if job_id is not None:
            where, values = f"{where} AND job_id = {db.param}", [*values, job_id]
        return cls._enter(_S.SCHEDULED, where, values, from_={_S.QUEUED}, job_id=None, lease_until=None)

    @classmethod
    def put_back_unsent(cls, ids: Iterable[str], claim: str) -> list[str]:
        """Move SENDING messages of this claim back to SCHEDULED: the caller knows that none went to a provider."""
        where, values = these(ids)
        return cls._enter(
            _S.SCHEDULED, f"{where} AND claim = {db.param}", [*values, claim], from_={_S.SENDING}, lease_until=None
        )

    @classmethod
    def leave_queued(cls, ids: Iterable[str], until: datetime) -> None:
        """Leave QUEUED messages to their job until then: the job still runs."""
        statement = cls.update(lease_until=until).where(cls.id.in_(list(ids)), cls.now_in(_S.QUEUED))
        with pooled_connection():
            statement.execute()


def _fitting(
    claims: Claims,
    line: Iterable[tuple[str, int, object, bool, int | None]],
    recipients: int | None,
    never_more_than: int | None,
    uploads: UploadRoom | None,
    external: ExternalRoom | None = None,
    *,
    most: int | None = None,
) -> Claims:
    """Take what fits from the front of a line, up to the first that does not, ``most`` in all.

    What only its files or its external recipients keep is passed over. A place in the line is id, recipients, moment,
    whether it has expired, and the bytes it uploads.
    """
    line = list(line)
    reaching = {} if external is None else _external([row[0] for row in line if not row[3]], external)
    for message_id, count, _, expired, size in line:
        if len(claims) == most:
            break
        claim, outside = Claim(message_id, count), reaching.get(message_id, 0)
        if external is not None and outside and (claims.external_waits or claims.external + outside > external.left):
            claims.external_waits = True
            continue
        upload = 0 if uploads is None or expired or not size else min(size, uploads.window)
        if uploads is not None and upload and (claims.upload_waits or claims.uploads + upload > uploads.left):
            claims.upload_waits = True
            continue
        if recipients is not None and not expired and (never_more_than is None or count <= never_more_than):
            if claims.recipients + count > recipients:
                claims.waits = claim
                break
            claims.recipients += count
        claims.uploads += upload
        claims.external += outside
        claims.append(claim)
    return claims


def _external(ids: list[str], room: ExternalRoom) -> dict[str, int]:
    """Count the external recipients of messages that have some; what a whole day has no room for takes none of it."""
    if not ids:
        return {}
    found, values = these(ids)
    found = found.replace("id IN", "message_id IN")
    outside = "".join(f" AND LOWER(address) NOT LIKE {db.param}" for _ in room.internal)
    sql = f"SELECT message_id, COUNT(*) FROM recipient WHERE {found}{outside} GROUP BY message_id"  # noqa: S608
    rows = db.execute_sql(sql, [*values, *(f"%@{domain}" for domain in sorted(room.internal))]).fetchall()
    return {message_id: number for message_id, number in rows if number <= room.day}
