"""Moves that somebody decides on: what became of an unclear send, and what a person wants of a message."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import peewee

from rqmail.models.base import db, pooled_connection, to_column
from rqmail.models.history import Attempt, Event, Route, event, iso, line
from rqmail.models.row import MessageRow, these
from rqmail.models.states import MessageStatus

_S = MessageStatus

#: What a message of a campaign waits for that may not send now.
HELD = "campaign-paused"


class WaitedThen(NamedTuple):
    """A message that waited when a backup was taken, and whose it is."""

    id: str
    sender: str


def _restored(taken_at: datetime) -> str:
    return f"Restored from the backup of {iso(taken_at)}."


class DecisionMoves(MessageRow):
    """UNKNOWN → what it was found to be; cancelled, requeued or brought forward by a person."""

    # --- what an unclear send was --------------------------------------------------------------------------------

    def look_again_at(self, moment: datetime, note: str | None = None, *, looked: Event | None = None) -> bool:
        """Leave an UNKNOWN message alone until ``moment``.

        ``looked`` tells the history how it was looked for; the same again and again is told once.
        """
        changes: dict[str, Any] = {"lease_until": moment}
        if note is not None:
            changes["last_error"] = note
        last = self.events[-1] if self.events else {}
        if looked is not None and (last.get("what"), last.get("detail")) != (looked.what, looked.detail):
            changes["attempt_log"] = type(self).attempt_log.concat(line(looked))
        statement = (
            type(self).update(**changes).where(peewee.SQL(*self._as_claimed()), type(self).status == _S.UNKNOWN.value)
        )
        with pooled_connection():
            return bool(statement.execute())

    def confirm_sent(self, now: datetime, note: str, by: str | None = None) -> bool:
        """It is known after all that the provider accepted an UNKNOWN message."""
        attempt = Attempt(at=iso(now), outcome="confirmed-sent", duration_ms=0, detail=note, by=by)
        return bool(
            self._enter(
                _S.SENT,
                *self._as_claimed(),
                from_={_S.UNKNOWN},
                log=attempt,
                sent_on=self.attempted_on or now,
                ended_on=now,
                lease_until=None,
                last_error=None,
            )
        )

    def send_again(self, now: datetime, note: str, by: str | None = None) -> bool:
        """It is known after all that the provider did not accept an UNKNOWN message, or a person takes the risk.

        The old claim stays until a new send begins: should its worker still report an acceptance, that wins. What is
        not due yet (a restored backup does not know whether it was brought forward) keeps its moment.
        """
        attempt = Attempt(at=iso(now), outcome="sent-again", duration_ms=0, detail=note, by=by)
        return bool(
            self._enter(
                _S.SCHEDULED,
                *self._as_claimed(),
                from_={_S.UNKNOWN},
                log=attempt,
                scheduled_on=max(now, self.scheduled_on),
                lease_until=None,
            )
        )

    def give_up(self, now: datetime, note: str) -> bool:
        """It is known after all that the provider did not accept an UNKNOWN message, and its attempts are used up."""
        attempt = Attempt(at=iso(now), outcome="given-up", duration_ms=0, detail=note)
        error = f"Gave up after {self.attempts} attempts; the last one: {self.last_error or note}"
        return bool(
            self._enter(
                _S.ERROR,
                *self._as_claimed(),
                from_={_S.UNKNOWN},
                log=attempt,
                lease_until=None,
                last_error=error,
                ended_on=now,
            )
        )

    # --- what a restored backup cannot know ----------------------------------------------------------------------

    @classmethod
    def waiting_in_backup(cls, taken_at: datetime, *, after: str = "", limit: int) -> list[WaitedThen]:
        """List messages that waited when this backup was taken and are not in doubt because of it yet, by id."""
        sql = (
            "SELECT id, sender FROM message"  # noqa: S608 - only placeholders and constants are put in
            f" WHERE id > {db.param} AND created_on <= {db.param} AND {cls._not_doubted()}"
            f" AND status || '' IN ('QUEUED', 'SCHEDULED') ORDER BY id LIMIT {db.param}"
        )
        with pooled_connection():
            found = db.execute_sql(sql, (after, to_column(taken_at), f"%{_restored(taken_at)}%", limit)).fetchall()
        return [WaitedThen(*row) for row in found]

    @classmethod
    def doubt(cls, ids: Sequence[str], taken_at: datetime, now: datetime, by: str, route: Route | None) -> list[str]:
        """Move what waited when a backup was taken to UNKNOWN: it may have been sent since; answer the ids moved.

        It is looked for where it would have gone, ``route``, and keeps the moment it waits for.
        """
        attempt = Attempt(
            at=iso(now),
            outcome="restored",
            duration_ms=0,
            provider=None if route is None else route.provider,
            mailbox_key=None if route is None else route.mailbox_key,
            detail=_restored(taken_at),
            by=by,
        )
        changes: dict[str, Any] = {"attempted_on": now, "lease_until": now, "job_id": None}
        if route is not None:
            changes |= {name: getattr(route, name) for name in Route.__slots__}
        where, values = these(ids)
        return cls._enter(
            _S.UNKNOWN,
            f"{where} AND {cls._not_doubted()}",
            [*values, f"%{_restored(taken_at)}%"],
            from_={_S.SCHEDULED, _S.QUEUED},
            log=attempt,
            last_error=f"{_restored(taken_at)} It may have been sent since.",
            **changes,
        )

    @staticmethod
    def _not_doubted() -> str:
        return f"attempt_log NOT LIKE {db.param}"

    # --- what a person wants -------------------------------------------------------------------------------------

    @classmethod
    def cancel(cls, ids: Sequence[str], now: datetime | None = None, by: str | None = None) -> list[str]:
        """Cancel what has not begun, and discard what is UNKNOWN; answer the ids that were."""
        return cls._enter(
            _S.CANCELLED,
            *these(ids),
            log=event(now, "cancelled", by),
            job_id=None,
            lease_until=None,
            waiting_for=None,
            ended_on=now,
        )

    @classmethod
    def cancel_import(cls, import_id: str, now: datetime, by: str) -> int:
        """Cancel what has not begun of the messages that came with one import; answer how many that were."""
        return cls._cancel_all("import_id", import_id, now, by, "Its import was undone.")

    @classmethod
    def cancel_campaign(cls, campaign_id: int, now: datetime, by: str) -> int:
        """Cancel what has not begun of a campaign's messages; answer how many that were."""
        return cls._cancel_all("campaign_id", campaign_id, now, by, "Its campaign was cancelled.")

    @classmethod
    def _cancel_all(cls, column: str, value: object, now: datetime, by: str, why: str) -> int:
        """Cancel what has not begun of the messages that have this in a column."""
        cancelled = cls._enter(
            _S.CANCELLED,
            f"{column} = {db.param}",
            [value],
            from_={_S.SCHEDULED, _S.QUEUED},
            log=Event(now, "cancelled", by=by, detail=why),
            job_id=None,
            lease_until=None,
            waiting_for=None,
            ended_on=now,
        )
        return len(cancelled)

    @classmethod
    def hold_campaign(cls, campaign_id: int, until: datetime) -> None:
        """Leave a campaign's waiting messages where they are until then: it is paused, or may not send at this hour."""
        statement = cls.update(scheduled_on=until, waiting_for=HELD).where(
            cls.campaign_id == campaign_id, cls.now_in(_S.SCHEDULED), cls.scheduled_on < until
        )
        with pooled_connection():
            statement.execute()

    @classmethod
    def let_go_campaign(cls, campaign_id: int, now: datetime) -> None:
        """Make due what :meth:`hold_campaign` held."""
        statement = cls.update(scheduled_on=now, waiting_for=None).where(
            cls.campaign_id == campaign_id, cls.now_in(_S.SCHEDULED), cls.waiting_for == HELD
        )
        with pooled_connection():
            statement.execute()

    @classmethod
    def discard(cls, ids: Sequence[str], now: datetime, by: str) -> list[str]:
        """Leave UNKNOWN messages as they are, sent or not: nothing more happens to them; answer the ids moved."""
        return cls._enter(
            _S.CANCELLED,
            *these(ids),
            from_={_S.UNKNOWN},
            log=Event(now, "discarded", by=by),
            lease_until=None,
            ended_on=now,
        )

    @classmethod
    def requeue(cls, ids: Sequence[str], now: datetime, by: str | None = None, *, too_late: bool = False) -> list[str]:
        """Send again, from the first attempt on, what ended in ERROR, CANCELLED or EXPIRED; answer the ids moved.

        ``expires_on`` stays as it was asked for, so what has passed it is left where it is. With ``too_late`` just that
        is sent again, and no longer expires.
        """
        where, values = these(ids)
        passed = f"(expires_on IS NOT NULL AND expires_on <= {db.param})"
        changes: dict[str, Any] = {
            "scheduled_on": now,
            "attempts": 0,
            "claim": None,
            "waiting_for": None,
            "ended_on": None,
        }
        return cls._enter(
            _S.SCHEDULED,
            f"{where} AND {passed if too_late else 'NOT ' + passed}",
            [*values, to_column(now)],
            from_={_S.ERROR, _S.CANCELLED, _S.EXPIRED},
            log=Event(now, "requeued", by=by),
            **(changes | {"expires_on": None} if too_late else changes),
        )

    @classmethod
    def bring_forward(cls, ids: Sequence[str], now: datetime, by: str | None = None) -> list[str]:
        """Make waiting messages due at once; answer the ids that were waiting. The budget still holds."""
        forward = {
            "scheduled_on": now,
            "attempt_log": cls.attempt_log.concat(line(Event(now, "brought-forward", by=by))),
        }
        statement = cls.update(**forward).where(cls.id.in_(ids), cls.now_in(_S.SCHEDULED)).returning(cls.id)
        with pooled_connection():
            return [row.id for row in statement.execute()]
