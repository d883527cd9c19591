"""Campaigns as they are made and steered: created from a list and a template, tried, started, paused, ended."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import IO, Any, Self

from rqmail.campaigns.audience import AS_IT_SAYS, Audience, ListReading, RowProblem, read_audience
from rqmail.campaigns.pool import always_the_same
from rqmail.campaigns.rendering import LINK_STAND_IN, render, values_of
from rqmail.campaigns.template import Template, UnrenderableError
from rqmail.campaigns.window import SendingWindow
from rqmail.clock import Clock
from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.intake.content import checked_extras
from rqmail.intake.draft import Draft, Intake
from rqmail.intake.headers import one_click_headers
from rqmail.intake.moments import check_moments, moment_of
from rqmail.models import audience, campaigns, progress
from rqmail.models.audience import Addressed, NewPerson
from rqmail.models.base import pooled_connection
from rqmail.models.campaigns import Campaign, CampaignState
from rqmail.models.content import NO_EXTRAS, Importance, extras_of
from rqmail.models.mailbox import SystemMailbox
from rqmail.models.message import Message, Priority

_S = CampaignState

#: People stored in one transaction: so long SQLite's only writer is taken.
_PEOPLE_AT_ONCE = 2_000

_MESSAGES_AT_ONCE = 500

#: A creation that takes longer has lost its process.
_CREATED_WITHIN = timedelta(hours=1)

#: How the subject of a mail begins that only tries a campaign.
TEST_MARK = "[Test] "

#: Answers which of these people are not to be written to.
Suppressed = Callable[[Sequence[str]], set[str]]


def nobody(_people: Sequence[str]) -> set[str]:
    """Suppress nobody."""
    return set()


@dataclass(frozen=True, slots=True)
class NewCampaign:
    """What a campaign is to be: ``mailboxes`` are keys, ``at`` and ``expires`` moments with their zone.

    ``priority`` is ``low`` (behind all other mail of its mailboxes) or ``normal``.
    """

    name: str
    mailboxes: Sequence[str]
    subject: str
    html: str | None = None
    text: str | None = None
    language: str = "en"
    priority: str = "low"
    at: datetime | str | None = None
    expires: datetime | str | None = None
    window: SendingWindow | None = None
    not_within_hours: int | None = None
    sticky: bool = False
    unsubscribe: bool = False
    reply_to: Sequence[str] = ()
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class Creation:
    """What became of a list: ``id`` is ``None`` where nothing was stored, because of bad rows or as it was a trial.

    ``recipients`` are the people to be written to, ``duplicates`` rows of somebody named before, ``suppressed`` people
    not to be written to, ``invalid`` rows that cannot be used; ``errors`` and ``repeated`` tell of the rows, up to a
    bound, and ``empty`` in which rows a field is empty that the template uses.
    """

    name: str
    rows: int
    recipients: int
    duplicates: int
    suppressed: int
    invalid: int
    id: int | None = None
    errors: tuple[RowProblem, ...] = ()
    repeated: tuple[RowProblem, ...] = ()
    suppressed_rows: tuple[RowProblem, ...] = ()
    empty: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_refused(self) -> bool:
        """Whether bad rows stopped it."""
        return self.id is None and self.invalid > 0


@dataclass(frozen=True, slots=True)
class Preview:
    """What one person gets: ``row`` counts a campaign's people from 1."""

    row: int
    address: str
    name: str
    subject: str
    text: str | None
    html: str | None
    headers: tuple[tuple[str, str], ...]
    sender: str


@dataclass(frozen=True)
class Campaigns:
    """Makes and steers campaigns; nothing of one is sent before it is started."""

    clock: Clock
    intake: Intake
    suppressed: Suppressed = nobody
    unsubscribing_needs: Callable[[], str | None] = lambda: None
    who: str = "nobody"

    def by(self, who: str) -> Self:
        """Answer the same, done in somebody's name."""
        return replace(self, who=who)

    # --- made ----------------------------------------------------------------------------------------------------

    def create(
        self,
        wanted: NewCampaign,
        file: IO[bytes],
        reading: ListReading = AS_IT_SAYS,
        *,
        skip_invalid: bool = False,
        dry_run: bool = False,
        on_progress: Callable[[int, int], None] = lambda _done, _of: None,
    ) -> Creation:
        """Check a list and a template as a whole, and only then store a campaign; raises ``InvalidInputError``.

        Bad rows refuse it, all of them told, unless they are to be skipped.
        """
        values, senders, template = self._checked(wanted)
        people = read_audience(file, reading)
        template.check_fields(people.fields)
        self._check_unsubscribing(wanted, template)
        _check_first(template, people)
        suppressed = self.suppressed([one.person for one in people.people])
        report = _report(wanted.name, people, suppressed, template)
        if dry_run or (report.invalid and not skip_invalid):
            return report
        if not report.recipients:
            raise InvalidInputError("recipients", f"{report.rows:,} rows", "somebody who may be written to")
        campaigns.forget_unfinished(self.clock() - _CREATED_WITHIN)
        values |= {"fields": json.dumps(people.fields, ensure_ascii=False), "people": report.recipients}
        campaign = campaigns.begin(values, senders)
        try:
            for start in range(0, len(people.people), _PEOPLE_AT_ONCE):
                some = people.people[start : start + _PEOPLE_AT_ONCE]
                audience.add(
                    campaign,
                    [
                        NewPerson(
                            one.row,
                            one.address,
                            one.person,
                            one.name,
                            one.values,
                            always_the_same(senders, one.person) if wanted.sticky else "",
                            one.person in suppressed,
                        )
                        for one in some
                    ],
                )
                on_progress(start + len(some), len(people.people))
            campaigns.move(campaign, _S.DRAFT, [_S.CREATING])
        except BaseException:
            campaigns.delete(campaign)
            raise
        return replace(report, id=campaign.id)

    def clone(self, name: str, new_name: str) -> Campaign:
        """Make a draft with the template, the settings and the people of another campaign."""
        source = campaigns.find(name)
        kept = campaigns.settings_of(source)
        kept |= {"name": _name(new_name), "created_by": self.who, "created_on": self.clock()}
        target = campaigns.begin(kept, campaigns.senders_of([source.id])[source.id])
        try:
            audience.copy(source, target)
            campaigns.move(target, _S.DRAFT, [_S.CREATING])
        except BaseException:
            campaigns.delete(target)
            raise
        return campaigns.find(target.name)

    def delete(self, name: str) -> Campaign:
        """Delete a draft; raises ``ConflictError`` for a campaign that was started."""
        campaign = campaigns.find(name)
        campaigns.delete(campaign)
        return campaign

    # --- tried ---------------------------------------------------------------------------------------------------

    def preview(self, name: str, row: int = 1) -> Preview:
        """Answer what one person gets, by their place among a campaign's people."""
        campaign = campaigns.find(name)
        person = audience.person_at(campaign, row) if row > 0 else None
        if person is None:
            raise NotFoundError("row", str(row))
        whom = Addressed(campaign.id, campaign.created_on, person.number, person.address, person.name, person.data)
        try:
            rendered = render(campaign, whom)
        except UnrenderableError as wrong:
            raise InvalidInputError("row", row, f"a row that the template can be rendered with ({wrong})") from None
        sender = person.sender or campaigns.senders_of([campaign.id])[campaign.id][0]
        extras = extras_of(campaign.extras) or NO_EXTRAS
        links = one_click_headers(LINK_STAND_IN) if campaign.unsubscribe else ()
        return Preview(
            row,
            person.address,
            person.name,
            rendered.subject,
            rendered.text,
            rendered.html,
            (*extras.headers, *links),
            sender,
        )

    def test(self, name: str, to: str, row: int = 1) -> str:
        """Send somebody else what a person of the list would get, marked and not counted; answer the message's id."""
        shown = self.preview(name, row)
        draft = Draft(
            sender=shown.sender,
            to=to,
            subject=(TEST_MARK + shown.subject)[:998],
            text=shown.text,
            html=shown.html,
            priority="high",
            unsubscribe=bool(campaigns.find(name).unsubscribe),
        )
        return self.intake.by(self.who).submit(draft)

    # --- steered -------------------------------------------------------------------------------------------------

    def start(self, name: str) -> Campaign:
        """Let it go out; one that runs already goes on as it is."""
        campaign = campaigns.find(name)
        if campaign.expires_on is not None and campaign.expires_on <= self.clock():
            raise ConflictError(f"Campaign {campaign.name!r} has expired; a later moment can be set.")
        if campaign.state == _S.PAUSED.value:
            raise ConflictError(f"Campaign {campaign.name!r} is PAUSED; it goes on with resume.")
        if campaigns.move(campaign, _S.RUNNING, [_S.DRAFT], started_on=self.clock()):
            self.intake.announce(due=True)
        return campaigns.find(campaign.name)

    def pause(self, name: str) -> Campaign:
        """Send nothing more with the next tick; what is being sent ends."""
        return self._moved(name, _S.PAUSED, [_S.RUNNING])

    def resume(self, name: str) -> Campaign:
        """Go on after a pause."""
        return self._moved(name, _S.RUNNING, [_S.PAUSED])

    def cancel(self, name: str) -> Campaign:
        """End it: what is being sent ends, nobody else gets it."""
        now = self.clock()
        campaign = campaigns.find(name)
        early = [_S.RUNNING, _S.PAUSED, _S.DRAFT]
        if campaigns.move(campaign, _S.CANCELLED, early, started_on=campaign.started_on or now):
            self.intake.announce(due=True)
        return campaigns.find(campaign.name)

    def retry_failed(self, name: str) -> int:
        """Send again what ended in ERROR or was discarded, never what was or may have been sent; answer how many."""
        campaign = campaigns.find(name)
        if campaign.state == _S.CANCELLED.value or not campaign.is_started:
            raise ConflictError(f"Campaign {campaign.name!r} is {campaign.state}: there is nothing to send again.")
        if campaign.expires_on is not None and campaign.expires_on <= self.clock():
            raise ConflictError(f"Campaign {campaign.name!r} has expired; a later moment can be set.")
        if campaign.state == _S.DONE.value:
            campaigns.move(campaign, _S.RUNNING, [_S.DONE], ended_on=None)
        again = 0
        while ids := progress.failed_messages(campaign, limit=_MESSAGES_AT_ONCE):
            moved = Message.requeue(ids, self.clock(), self.who)
            again += len(moved)
            if not moved:
                break
        if again:
            self.intake.announce(due=True)
        return again

    def change(
        self,
        name: str,
        *,
        mailboxes: Sequence[str] | None = None,
        **changes: Any,
    ) -> Campaign:
        """Change the pool or the settings, also while it runs: ``expires``, ``at``, ``window``, ``not_within_hours``.

        A setting that is given as ``None`` is taken away.
        """
        campaign = campaigns.find(name)
        senders = None if mailboxes is None else _senders(mailboxes)
        columns: dict[str, Any] = {}
        if "window" in changes:
            window = changes["window"]
            columns["window"] = None if window is None else window.to_column()
        if "not_within_hours" in changes:
            columns["not_within_hours"] = _hours(changes["not_within_hours"])
        for key, column in (("at", "starts_on"), ("expires", "expires_on")):
            if key in changes:
                columns[column] = moment_of(key, changes[key])
        check_moments(columns.get("starts_on", campaign.starts_on), columns.get("expires_on"), self.clock())
        if senders is None and not columns:
            raise InvalidInputError("campaign", campaign.name, "something to change")
        campaigns.change(campaign, senders, **columns)
        if senders is not None and campaign.sticky:
            audience.deal_anew(campaign, lambda person: always_the_same(senders, person))
        return campaigns.find(campaign.name)

    def _moved(self, name: str, to: CampaignState, from_: Sequence[CampaignState]) -> Campaign:
        campaign = campaigns.find(name)
        if campaigns.move(campaign, to, from_):
            self.intake.announce(due=True)
        return campaigns.find(campaign.name)

    def _check_unsubscribing(self, wanted: NewCampaign, template: Template) -> None:
        if not wanted.unsubscribe and "unsubscribe_url" in template.used:
            allowed = "only in a campaign that adds links to unsubscribe"
            raise InvalidInputError("html", "{{ unsubscribe_url }}", allowed)
        if wanted.unsubscribe and (missing := self.unsubscribing_needs()) is not None:
            raise InvalidInputError("unsubscribe", True, missing)

    def _checked(self, wanted: NewCampaign) -> tuple[dict[str, Any], list[str], Template]:
        now = self.clock()
        starts, expires = moment_of("at", wanted.at), moment_of("expires", wanted.expires)
        check_moments(starts, expires, now)
        template = Template(wanted.subject, wanted.text, wanted.html, language=wanted.language)
        extras = checked_extras(
            reply_to=wanted.reply_to,
            importance=Importance.NORMAL.value,
            read_receipt=False,
            delivery_receipt=False,
            headers=wanted.headers,
            unsubscribe_url=None,
            from_=None,
            unsubscribe=wanted.unsubscribe,
        )
        values = {
            "name": _name(wanted.name),
            "subject": wanted.subject,
            "text": wanted.text or None,
            "html": wanted.html or None,
            "extras": extras.to_column(),
            "language": wanted.language,
            "priority": int(_priority(wanted.priority)),
            "sticky": wanted.sticky,
            "unsubscribe": wanted.unsubscribe,
            "window": None if wanted.window is None else wanted.window.to_column(),
            "not_within_hours": _hours(wanted.not_within_hours),
            "starts_on": starts,
            "expires_on": expires,
            "created_by": self.who,
            "created_on": now,
        }
        return values, _senders(wanted.mailboxes), template


def _name(typed: str) -> str:
    name = " ".join(typed.split())
    if not 0 < len(name) <= 80 or not name.isprintable() or "/" in name or name.isdigit():
        raise InvalidInputError("name", typed[:100], "up to 80 letters, digits, blanks, no slash, and no number alone")
    return name


def _senders(mailboxes: Sequence[str]) -> list[str]:
    if not mailboxes:
        raise InvalidInputError("mailbox", "", "at least one mailbox for the pool")
    wanted = dict.fromkeys(mailboxes)
    with pooled_connection():
        query = SystemMailbox.select(SystemMailbox.key).where(SystemMailbox.key.in_(list(wanted)))
        known = {row.key for row in query}
    for key in wanted:
        if key not in known:
            raise NotFoundError("mailbox", key)
    return sorted(f"mailbox:{key}" for key in wanted)


def _priority(typed: str) -> Priority:
    allowed = {"low": Priority.LOW, "normal": Priority.NORMAL}
    if typed not in allowed:
        raise InvalidInputError("priority", typed, " or ".join(allowed))
    return allowed[typed]


def _hours(given: int | None) -> int | None:
    if given is not None and not 1 <= given <= 24 * 366:
        raise InvalidInputError("not-within", given, "hours from 1 to 8,784")
    return given


def _check_first(template: Template, people: Audience) -> None:
    if not people.people:
        return
    first = people.people[0]
    try:
        template.render(values_of(people.fields, first.values, first.address, first.name))
    except UnrenderableError as wrong:
        raise InvalidInputError("template", f"row {first.row}", f"one that can be rendered ({wrong})") from None


def _report(name: str, people: Audience, suppressed: set[str], template: Template) -> Creation:
    left_out = [one for one in people.people if one.person in suppressed]
    return Creation(
        " ".join(name.split()),
        people.rows,
        len(people.people) - len(left_out),
        people.duplicates,
        len(left_out),
        people.invalid,
        errors=tuple(people.problems),
        repeated=tuple(people.repeated),
        suppressed_rows=tuple(RowProblem(one.row, "to", one.address) for one in left_out[:1_000]),
        empty=people.empty_in(template.used),
    )
