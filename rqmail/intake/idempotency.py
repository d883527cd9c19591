"""Submission: messages taken in once, however often the request that brings them is repeated."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rqmail.clock import Clock
from rqmail.errors import ConflictError
from rqmail.intake.draft import Intake
from rqmail.models.access import REMEMBERED, IdempotencyKey
from rqmail.models.base import AWAY_ERRORS, TAKEN_ERRORS, pooled_connection
from rqmail.models.message import NewKey, NewMessage


@dataclass(frozen=True, slots=True)
class Submitted:
    """The ids of the messages a request brought, in its order; ``replayed`` when an earlier one had brought them."""

    ids: tuple[str, ...]
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Repeatable:
    """What makes a request recognisable: who sends it, under which key, and the fingerprint of what it asks."""

    caller: str
    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class HandedIn:
    """One message, what makes the request for it recognisable, and who handed it in."""

    message: NewMessage
    request: Repeatable | None
    by: str


class _TakenError(Exception):
    """Another request stored its messages under this key first."""


class Submission:
    """Takes checked messages in, at most once per caller and key."""

    def __init__(self, clock: Clock, intake: Intake) -> None:
        self._clock = clock
        self._intake = intake

    def submit(
        self, messages: Sequence[NewMessage], request: Repeatable | None = None, *, by: str | None = None
    ) -> Submitted:
        """Store all of these, handed in by ``by``, or none, and answer their ids.

        A request that was answered before is answered the same and adds nothing, also when both come at the same
        moment; raises ``ConflictError`` when its key was used for a request that asked for something else.
        """
        ids = tuple(message.id for message in messages)
        intake = self._intake if by is None else self._intake.by(by)
        if request is None:
            intake.store(messages)
            return Submitted(ids)
        earlier = self.earlier(request)
        if earlier is not None:
            return earlier
        try:
            intake.store(messages, on_stored=self._remembering(request, ids))
        except _TakenError:
            return self.earlier(request) or self.submit(messages, request, by=by)
        return Submitted(ids)

    def submit_each(self, handed_in: Sequence[HandedIn]) -> list[Submitted | Exception]:
        """Store each of these, together where that can be, and answer what became of it, or why it was not stored.

        Each is a request of its own: one that cannot be stored takes no other with it.
        """
        places: dict[str, list[int]] = {}
        for place, one in enumerate(handed_in):
            places.setdefault(one.by, []).append(place)
        answers: dict[int, Submitted | Exception] = {}
        for by, theirs in places.items():
            answers.update(zip(theirs, self._each_of(by, [handed_in[place] for place in theirs]), strict=True))
        return [answers[place] for place in range(len(handed_in))]

    def _each_of(self, by: str, ones: Sequence[HandedIn]) -> list[Submitted | Exception]:
        try:
            return list(self._together(by, ones))
        except AWAY_ERRORS as away:
            return [away] * len(ones)
        except Exception:  # noqa: BLE001 - one of them is to blame: it hears of it, and the others are stored
            return [self._alone(one) for one in ones]

    def _together(self, by: str, ones: Sequence[HandedIn]) -> list[Submitted]:
        """Store what one caller handed in, in one transaction; nearly always none of it came before."""
        intake = self._intake.by(by)
        new, answers = _each_once(ones, {})
        keys = [_key(one.request, one.message) for one in new if one.request is not None]
        try:
            intake.store([one.message for one in new], keys=keys)
        except TAKEN_ERRORS:
            requests = [one.request for one in ones if one.request is not None]
            new, answers = _each_once(ones, self._earlier_of(requests))
            taken = [(one.request, (one.message.id,)) for one in new if one.request is not None]
            if new:
                intake.store([one.message for one in new], on_stored=Remembering(taken, self._clock))
        return [_answer(one, answers) for one in ones]

    def _alone(self, one: HandedIn) -> Submitted | Exception:
        try:
            return self.submit([one.message], one.request, by=one.by)
        except Exception as error:  # noqa: BLE001 - it is told whose mail it is
            return error

    def earlier(self, request: Repeatable) -> Submitted | None:
        """Answer what this request was answered before, ``None`` when it is new."""
        return self._earlier_of([request]).get((request.caller, request.key))

    def _earlier_of(self, requests: Sequence[Repeatable]) -> dict[tuple[str, str], Submitted]:
        """Answer what those of these requests that came before were answered, by caller and key."""
        if not requests:
            return {}
        with pooled_connection():
            rows = list(
                IdempotencyKey.select().where(
                    IdempotencyKey.caller.in_({one.caller for one in requests}),
                    IdempotencyKey.key.in_({one.key for one in requests}),
                    IdempotencyKey.created_on > self._clock() - REMEMBERED,
                )
            )
        found = {(row.caller, row.key): row for row in rows}
        for one in requests:
            row = found.get((one.caller, one.key))
            if row is not None and row.fingerprint != one.fingerprint:
                raise ConflictError("this Idempotency-Key was used for a request with a different body")
        return {key: Submitted(tuple(json.loads(row.message_ids)), replayed=True) for key, row in found.items()}

    def _remembering(self, request: Repeatable, ids: tuple[str, ...]) -> Remembering:
        return Remembering([(request, ids)], self._clock)


_Answers: TypeAlias = dict[tuple[str, str], Submitted]


def _each_once(ones: Sequence[HandedIn], earlier: _Answers) -> tuple[list[HandedIn], _Answers]:
    """Answer which of these are new, and what each key is answered: those of ``earlier``, and of the new ones."""
    answers = dict(earlier)
    new = []
    for one in ones:
        if one.request is not None:
            key = (one.request.caller, one.request.key)
            if key in answers:
                continue
            answers[key] = Submitted((one.message.id,))
        new.append(one)
    return new, answers


def _key(request: Repeatable, message: NewMessage) -> NewKey:
    return NewKey(request.caller, request.key, request.fingerprint, message.id)


def _answer(one: HandedIn, answers: _Answers) -> Submitted:
    ids = (one.message.id,)
    found = Submitted(ids) if one.request is None else answers[one.request.caller, one.request.key]
    return found if found.ids == ids else Submitted(found.ids, replayed=True)


class Remembering:
    """Writes keys down in the transaction that stores the messages: the second of two at once waits, and loses."""

    def __init__(self, keys: Sequence[tuple[Repeatable, tuple[str, ...]]], clock: Clock) -> None:
        self._keys = keys
        self._clock = clock
        self._done = not keys

    def __call__(self, _stored: int) -> None:
        """Take the keys with the first batch; raises when another request has taken one, which undoes everything."""
        if self._done:
            return
        now = self._clock()
        IdempotencyKey.forget(now)
        insert = IdempotencyKey.insert_many(
            [
                {
                    "caller": request.caller,
                    "key": request.key,
                    "fingerprint": request.fingerprint,
                    "message_ids": json.dumps(ids),
                    "created_on": now,
                }
                for request, ids in self._keys
            ]
        )
        if len(list(insert.on_conflict_ignore().returning(IdempotencyKey.key).execute())) < len(self._keys):
            raise _TakenError
        self._done = True
