"""How campaigns stand: who got it, who did not and why, which mailbox does what, and when it will be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from rqmail.campaigns.window import SendingWindow, window_of
from rqmail.clock import Clock
from rqmail.errors import ConflictError, RqmailError
from rqmail.insight.jsonable import as_json
from rqmail.insight.planning import Plan, Planning
from rqmail.insight.spreadsheet import csv_lines, delimiter_named
from rqmail.models import audience, campaigns, progress
from rqmail.models.campaigns import Campaign, CampaignState
from rqmail.models.message import Priority
from rqmail.models.progress import Outcome, Wanted

_S = CampaignState

_CSV_COLUMNS = (
    "address", "name", "status", "sentOn", "mailbox", "error", "messageId", "number", "bounced", "unsubscribedOn",
    "delivery",
)  # fmt: skip

#: Outcomes fetched in one statement.
_AT_ONCE = 1_000

#: The rate is that of the last minutes.
_RATE_OF = timedelta(minutes=5)

#: A window is followed for so many openings when the end is looked for.
_OPENINGS = 2_000


@dataclass(frozen=True, slots=True)
class CampaignLine:
    """One campaign in a list.

    ``recipients`` are the people it was created for; each of them is ``sent``, ``waiting`` (also while the mail is
    being sent), ``failed``, ``unknown``, ``cancelled``, ``expired`` or, since then, ``suppressed``; that counts those
    who were suppressed before, too. ``bounced`` are some of the sent, as are ``delivered``, where Exchange tells that.
    ``done_on`` is ``None`` where nobody can tell; of one that is over it is when its last mail left.
    """

    id: int
    name: str
    state: CampaignState
    subject: str
    recipients: int
    sent: int
    waiting: int
    failed: int
    unknown: int
    bounced: int
    delivered: int
    suppressed: int
    cancelled: int
    expired: int
    done_on: datetime | None
    created_by: str
    created_on: datetime
    starts_on: datetime | None
    started_on: datetime | None
    ended_on: datetime | None
    expires_on: datetime | None

    @property
    def settled(self) -> int:
        """Of how many people it is known what became of their mail."""
        return max(0, self.recipients - self.waiting - self.unknown)


@dataclass(frozen=True, slots=True)
class Member:
    """What one sender of the pool does for a campaign."""

    sender: str
    sent: int
    waiting: int
    failed: int
    unknown: int


@dataclass(frozen=True, slots=True)
class Failure:
    """Why mail failed, and of how many people."""

    reason: str
    people: int


@dataclass(frozen=True, slots=True)
class CampaignView(CampaignLine):
    """One campaign in full; ``per_minute`` is how many were sent a minute lately."""

    pool: tuple[Member, ...]
    failures: tuple[Failure, ...]
    per_minute: float
    priority: Priority
    language: str
    sticky: bool
    unsubscribe: bool
    window: str | None
    not_within_hours: int | None
    has_html: bool
    has_text: bool


class CampaignProgress:
    """Tells how campaigns stand; the end of one is found by letting the mailboxes' windows pass."""

    def __init__(self, planning: Planning, clock: Clock) -> None:
        self._planning = planning
        self._clock = clock

    def all(self, *, limit: int = 50, after: int | None = None) -> list[CampaignLine]:
        """List campaigns, the newest first; ``after`` is the id of the last one already seen."""
        found = campaigns.all_campaigns(limit=limit, after=after)
        ids = [one.id for one in found]
        counted, bounced, delivered = progress.counts(ids), progress.bounces(ids), progress.delivered(ids)
        return [self._line(one, counted[one.id], bounced.get(one.id, 0), delivered.get(one.id, 0)) for one in found]

    def show(self, name: str) -> CampaignView:
        """Answer one campaign in full."""
        campaign = campaigns.find(name)
        counted = progress.counts([campaign.id])[campaign.id]
        bounced, delivered = progress.bounces([campaign.id]), progress.delivered([campaign.id])
        line = self._line(campaign, counted, bounced.get(campaign.id, 0), delivered.get(campaign.id, 0))
        by_sender = progress.counts_of_senders(campaign)
        pool = sorted({*campaigns.senders_of([campaign.id])[campaign.id], *by_sender})
        window = window_of(campaign.window)
        now = self._clock()
        lately = progress.count_sent(campaign, now - _RATE_OF)
        minutes = min(_RATE_OF, max(timedelta(minutes=1), now - (campaign.started_on or now))) / timedelta(minutes=1)
        return CampaignView(
            **{field.name: getattr(line, field.name) for field in fields(CampaignLine)},
            pool=tuple(_member(sender, by_sender.get(sender, {})) for sender in pool),
            failures=tuple(Failure(reason, people) for reason, people in progress.errors(campaign)),
            per_minute=round(lately / minutes, 1),
            priority=Priority(campaign.priority),
            language=campaign.language,
            sticky=bool(campaign.sticky),
            unsubscribe=bool(campaign.unsubscribe),
            window=None if window is None else str(window),
            not_within_hours=campaign.not_within_hours,
            has_html=campaign.html is not None,
            has_text=campaign.text is not None,
        )

    def outcomes(self, name: str, wanted: Wanted, *, limit: int, after: int = 0) -> list[Outcome]:
        """Answer what became of people, in the order of the list; ``after`` is the number of the last one seen."""
        campaign = campaigns.find(name)
        return [_as_it_is(campaign, one) for one in progress.outcomes(campaign, wanted, after=after, limit=limit)]

    def all_outcomes(self, name: str, wanted: Wanted) -> Iterator[Outcome]:
        """Answer what became of everybody asked for, fetched as it is read."""
        after = 0
        while found := self.outcomes(name, wanted, after=after, limit=_AT_ONCE):
            yield from found
            after = found[-1].number

    def as_csv(self, name: str, wanted: Wanted, delimiter: str = ",") -> Iterator[str]:
        """Write what became of everybody asked for as CSV, a line at a time; raises ``NotFoundError`` at once."""
        campaigns.find(name)
        found = map(as_json, self.all_outcomes(name, wanted))
        return csv_lines(
            _CSV_COLUMNS,
            ([as_json(one)[column] for column in _CSV_COLUMNS] for one in found),
            delimiter_named(delimiter),
        )

    def sent_over_time(self, name: str) -> Sequence[tuple[datetime, int]]:
        """Count what was sent in each minute in which anything was."""
        return progress.sent_by_minute(campaigns.find(name))

    def _line(self, campaign: Campaign, counted: dict[str, int], bounced: int, delivered: int) -> CampaignLine:
        waiting = sum(counted.get(one, 0) for one in ("WAITING", "HELD", "SCHEDULED", "QUEUED", "SENDING"))
        untold = counted.get("WAITING", 0) + counted.get("HELD", 0)
        never = _never(campaign)
        return CampaignLine(
            id=campaign.id,
            name=campaign.name,
            state=CampaignState(campaign.state),
            subject=campaign.subject,
            recipients=campaign.people,
            sent=counted.get("SENT", 0),
            waiting=waiting - (untold if never else 0),
            failed=counted.get("ERROR", 0),
            unknown=counted.get("UNKNOWN", 0),
            bounced=bounced,
            delivered=delivered,
            suppressed=counted.get("SUPPRESSED", 0),
            cancelled=counted.get("CANCELLED", 0) + (untold if never == "CANCELLED" else 0),
            expired=counted.get("EXPIRED", 0) + (untold if never == "EXPIRED" else 0),
            done_on=self._done_on(campaign, untold, waiting),
            created_by=campaign.created_by,
            created_on=campaign.created_on,
            starts_on=campaign.starts_on,
            started_on=campaign.started_on,
            ended_on=campaign.ended_on,
            expires_on=campaign.expires_on,
        )

    def _done_on(self, campaign: Campaign, untold: int, waiting: int) -> datetime | None:
        if progress.is_over(campaign):
            return progress.last_sent(campaign)
        if campaign.state == _S.PAUSED.value or not waiting:
            return None
        now = self._clock()
        window = window_of(campaign.window)
        begins = max(now, campaign.starts_on or now)
        if window is not None:
            begins = window.opens_after(begins)
        keys = [one.partition(":")[2] for one in campaigns.senders_of([campaign.id])[campaign.id]]
        try:
            done = self._planning.forecast(Plan(tuple(keys), untold, at=begins, only_these=True)).done_on
        except (ConflictError, RqmailError):
            return None
        return done if done is None or window is None else _within(window, begins, done - begins)


def _never(campaign: Campaign) -> str | None:
    """Say what becomes of the people who wait in a campaign that is over: they get nothing."""
    if campaign.state == _S.CANCELLED.value:
        return "CANCELLED"
    return "EXPIRED" if campaign.state == _S.DONE.value else None


def _as_it_is(campaign: Campaign, one: Outcome) -> Outcome:
    never = _never(campaign)
    if never is None or one.status not in {audience.PersonState.WAITING, audience.PersonState.HELD}:
        return one
    return Outcome(one.number, one.address, one.name, never)


def _member(sender: str, counted: dict[str, int]) -> Member:
    waiting = sum(counted.get(one, 0) for one in ("SCHEDULED", "QUEUED", "SENDING"))
    return Member(sender, counted.get("SENT", 0), waiting, counted.get("ERROR", 0), counted.get("UNKNOWN", 0))


def _within(window: SendingWindow, begins: datetime, takes: timedelta) -> datetime | None:
    """Answer when so much time of sending has passed while the window is open."""
    at = begins
    for _ in range(_OPENINGS):
        closes = window.closes_after(at)
        if at + takes <= closes:
            return (at + takes).astimezone(UTC)
        takes -= closes - at
        at = window.opens_after(closes)
    return None
