"""Campaigns: created from a list and a template, looked at, tried and steered."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from flask import Blueprint
from pydantic import AfterValidator, BeforeValidator, Field
from spectree.model_adapter.pydantic_adapter import BaseFile

from rqmail.administration.access import Scope
from rqmail.administration.campaigns import CampaignChanges
from rqmail.campaigns.audience import ListReading
from rqmail.campaigns.campaign import NewCampaign
from rqmail.campaigns.window import SendingWindow, parse_window
from rqmail.insight.jsonable import as_json
from rqmail.models.progress import Wanted
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel, Changes, Line, Moment, PageSize, listed
from rqmail.web.context import application, who
from rqmail.web.uploads import one_file, takes_file

blueprint = Blueprint("campaigns", __name__, url_prefix="/admin/campaigns")

_TAG = "Campaigns"

StateName = Literal["DRAFT", "RUNNING", "PAUSED", "CANCELLED", "DONE"]

PersonStatus = Literal[
    "WAITING", "HELD", "SUPPRESSED", "SCHEDULED", "QUEUED", "SENDING",
    "SENT", "ERROR", "UNKNOWN", "CANCELLED", "EXPIRED",
]  # fmt: skip

_Between = Annotated[Line | None, Field(description="Send at these hours only, such as 08:00-20:00")]
_Weekdays = Annotated[Line | None, Field(description="Send on these days only: mon-fri, or mon,wed")]
_Zone = Annotated[Line | None, Field(description="Whose hours and days these are; left out, RQMAIL_TIMEZONE")]
_Hours = Annotated[int | None, Field(ge=1, le=8784, description="Not to who had mail of another campaign so lately")]
_Keys = Annotated[list[Line], BeforeValidator(listed), Field(min_length=1, max_length=500)]


class CampaignOf(ApiModel):
    """One campaign in a list: of the recipients each was sent it, waits, failed, is unknown, cancelled, expired.

    Since it was created some may have been suppressed; bounced are some of the sent, as delivered are, where Exchange
    tells that. doneOn is null where nobody can tell; of one that is over it is when its last mail left.
    """

    id: int
    name: str
    state: StateName
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


class CampaignPage(ApiModel):
    """Campaigns, the newest first; nextCursor is null on the last page."""

    campaigns: list[CampaignOf]
    next_cursor: int | None


class MemberOf(ApiModel):
    """What one sender of the pool does for a campaign; waiting is what stands in its line."""

    sender: str
    sent: int
    waiting: int
    failed: int
    unknown: int


class FailureOf(ApiModel):
    """Why mail failed, and of how many people."""

    reason: str
    people: int


class CampaignInFull(CampaignOf):
    """One campaign with its pool, its settings and what failed; perMinute is its rate of the last minutes."""

    pool: list[MemberOf]
    failures: list[FailureOf]
    per_minute: float
    priority: Literal["low", "normal", "high"]
    language: str
    sticky: bool
    unsubscribe: bool
    window: str | None
    not_within_hours: int | None
    has_html: bool
    has_text: bool


class NewCampaignForm(ApiModel):
    """A list of people, a template and a pool of mailboxes.

    The list is a table (CSV, .xlsx, .ods) with a column to; every other column is data for the templates (Jinja2).
    """

    file: Annotated[BaseFile, AfterValidator(one_file)]
    name: Line
    mailboxes: _Keys
    subject: str
    html: str | None = None
    text: str | None = None
    language: Line = "en"
    priority: Literal["low", "normal"] = "low"
    at: Annotated[Line | None, Field(description="Not before this moment, once it is started")] = None
    expires: Annotated[Line | None, Field(description="Nobody gets it after this moment")] = None
    between: _Between = None
    weekdays: _Weekdays = None
    timezone: _Zone = None
    not_within_hours: _Hours = None
    sticky: Annotated[bool, Field(description="The same person always hears from the same mailbox")] = False
    unsubscribe: Annotated[bool, Field(description="Add links with which people can unsubscribe")] = False
    reply_to: Line | None = None
    column: Annotated[Line, Field(description="What the list calls its column of addresses")] = "to"
    encoding: Line | None = None
    delimiter: Literal[",", ";", "tab", "|"] | None = None
    sheet: Line | None = None
    skip_invalid: Annotated[bool, Field(description="Leave out rows that cannot be used")] = False
    dry_run: Annotated[bool, Field(description="Check everything, store nothing")] = False


class RowProblemOf(ApiModel):
    """One row, counted as a spreadsheet shows them, and what there is to say of it."""

    row: int
    column: str
    message: str


class CreationOf(ApiModel):
    """What became of a list: id is null where nothing was stored; empty tells in which rows a used field is empty."""

    id: int | None
    name: str
    rows: int
    recipients: int
    duplicates: int
    suppressed: int
    invalid: int
    errors: list[RowProblemOf]
    repeated: list[RowProblemOf]
    suppressed_rows: list[RowProblemOf]
    empty: dict[str, list[int]]
    dry_run: bool


class RefusedList(CreationOf):
    """Rows of the list cannot be used, so nothing was stored."""

    error: str
    field_errors: dict[str, str]


class PreviewOf(ApiModel):
    """What one person gets."""

    row: int
    address: str
    name: str
    subject: str
    text: str | None
    html: str | None
    headers: list[tuple[str, str]]
    sender: str


class Steered(ApiModel):
    """A campaign, and the state it is in now."""

    id: int
    name: str
    state: StateName


class CampaignChange(Changes):
    """What is to change; mailboxes names the whole pool; null takes a setting away, between null the window."""

    mailboxes: Annotated[list[Line], Field(min_length=1, max_length=500)] | None = None
    at: Moment | None = None
    expires: Moment | None = None
    between: _Between = None
    weekdays: _Weekdays = None
    timezone: _Zone = None
    not_within_hours: _Hours = None


class TestMail(ApiModel):
    """Whose mail (row 1 is the first person) is sent to whom."""

    to: Line
    row: Annotated[int, Field(ge=1)] = 1


class TestSent(ApiModel):
    """The id of the message."""

    id: str


class CloneAs(ApiModel):
    """What the clone is called."""

    name: Line


class Again(ApiModel):
    """How many messages are sent again."""

    again: int


class PersonOf(ApiModel):
    """What became of one person's mail; number is the row of the list, mailbox the key of the one that writes.

    bounced is the code with which the mail came back, unsubscribedOn since when the person wants none any more.
    """

    number: int
    address: str
    name: str
    status: PersonStatus
    message_id: str | None
    mailbox: str | None
    sent_on: datetime | None
    error: str | None
    bounced: str | None
    unsubscribed_on: datetime | None
    delivery: Literal["pending", "delivered", "expanded", "failed", "quarantined", "spam"] | None


class PeoplePage(ApiModel):
    """People in the order of the list; nextCursor is null on the last page."""

    people: list[PersonOf]
    next_cursor: int | None


class WhichCampaigns(ApiModel):
    """Which part of the list."""

    limit: PageSize = 50
    cursor: Annotated[int | None, Field(ge=1, description="nextCursor of the page before")] = None


class WhichPeople(ApiModel):
    """Which people, and which part of the list; q is a part of an address or name."""

    status: PersonStatus | None = None
    q: Line = ""
    limit: PageSize = 50
    cursor: Annotated[int, Field(ge=0, description="nextCursor of the page before")] = 0


class WhichRow(ApiModel):
    """Whose mail: 1 is the first person."""

    row: Annotated[int, Field(ge=1)] = 1


@blueprint.get("")
@operation(Scope.READ, _TAG, CampaignPage)
def list_campaigns(query: WhichCampaigns) -> Any:
    """List campaigns."""
    found = application().campaign_progress.all(limit=query.limit + 1, after=query.cursor)
    following = found[query.limit - 1].id if len(found) > query.limit else None
    return {"campaigns": as_json(found[: query.limit]), "nextCursor": following}


@blueprint.post("")
@takes_file
@operation(Scope.ADMIN, _TAG, CreationOf, 404, status=201, others={200: CreationOf, 422: RefusedList})
def create_campaign(form: NewCampaignForm) -> Any:
    """Create a draft for everybody on a list; bad rows refuse it (422), all of them told. Nothing is sent yet."""
    uploaded: Any = form.file
    made = _changes().create(
        NewCampaign(
            name=form.name,
            mailboxes=form.mailboxes,
            subject=form.subject,
            html=form.html,
            text=form.text,
            language=form.language,
            priority=form.priority,
            at=form.at,
            expires=form.expires,
            window=_window(form.between, form.weekdays, form.timezone),
            not_within_hours=form.not_within_hours,
            sticky=form.sticky,
            unsubscribe=form.unsubscribe,
            reply_to=(form.reply_to,) if form.reply_to else (),
        ),
        uploaded.stream,
        ListReading(form.column, form.encoding, form.delimiter, form.sheet),
        skip_invalid=form.skip_invalid,
        dry_run=form.dry_run,
    )
    told = as_json(made) | {"dryRun": form.dry_run}
    if made.is_refused and not form.dry_run:
        text = f"{made.invalid:,} of {made.rows:,} rows cannot be used; nothing was stored."
        return told | {"error": text, "fieldErrors": {"file": text}}, HTTPStatus.UNPROCESSABLE_ENTITY
    return told, HTTPStatus.OK if made.id is None else HTTPStatus.CREATED


@blueprint.get("/<name>")
@operation(Scope.READ, _TAG, CampaignInFull, 404)
def show_campaign(name: str) -> Any:
    """Answer how a campaign stands, by its name or id."""
    return as_json(application().campaign_progress.show(name))


@blueprint.patch("/<name>")
@operation(Scope.ADMIN, _TAG, Steered, 404, 409)
def change_campaign(name: str, json: CampaignChange) -> Any:
    """Change the pool or when it sends, also while it runs."""
    given = json.given()
    changes: dict[str, Any] = {key: given[key] for key in ("at", "expires", "not_within_hours") if key in given}
    if {"between", "weekdays", "timezone"} & given.keys():
        changes["window"] = _window(json.between, json.weekdays, json.timezone)
    return _steered(_changes().change(name, mailboxes=json.mailboxes, **changes))


@blueprint.delete("/<name>")
@operation(Scope.ADMIN, _TAG, Steered, 404, 409)
def delete_campaign(name: str) -> Any:
    """Delete a draft, and answer what it was; a campaign that was started can only be cancelled."""
    return _steered(_changes().delete(name))


@blueprint.get("/<name>/preview")
@operation(Scope.READ, _TAG, PreviewOf, 404)
def preview_campaign(name: str, query: WhichRow) -> Any:
    """Answer what one person gets. Nothing is sent."""
    return as_json(application().campaigns.preview(name, query.row))


@blueprint.post("/<name>/test")
@operation(Scope.ADMIN, _TAG, TestSent, 404, status=201)
def test_campaign(name: str, json: TestMail) -> Any:
    """Send one person's mail to somebody else, marked as a test and not counted."""
    return {"id": _changes().test(name, json.to, json.row)}, HTTPStatus.CREATED


@blueprint.post("/<name>/start")
@operation(Scope.ADMIN, _TAG, Steered, 404, 409)
def start_campaign(name: str) -> Any:
    """Let a draft go out; one that runs already goes on."""
    return _steered(_changes().start(name))


@blueprint.post("/<name>/pause")
@operation(Scope.ADMIN, _TAG, Steered, 404, 409)
def pause_campaign(name: str) -> Any:
    """Send nothing more, within one tick; what is in flight ends."""
    return _steered(_changes().pause(name))


@blueprint.post("/<name>/resume")
@operation(Scope.ADMIN, _TAG, Steered, 404, 409)
def resume_campaign(name: str) -> Any:
    """Go on after a pause."""
    return _steered(_changes().resume(name))


@blueprint.post("/<name>/cancel")
@operation(Scope.ADMIN, _TAG, Steered, 404, 409)
def cancel_campaign(name: str) -> Any:
    """End a campaign for good: what is in flight ends, nobody else gets it."""
    return _steered(_changes().cancel(name))


@blueprint.post("/<name>/retry-failed")
@operation(Scope.ADMIN, _TAG, Again, 404, 409)
def retry_failed(name: str) -> Any:
    """Send again what ended in ERROR or was discarded; never what was, or may have been, sent."""
    return {"again": _changes().retry_failed(name)}


@blueprint.post("/<name>/clone")
@operation(Scope.ADMIN, _TAG, Steered, 404, status=201)
def clone_campaign(name: str, json: CloneAs) -> Any:
    """Make a draft with the template, the settings and the people of a campaign."""
    return _steered(_changes().clone(name, json.name)), HTTPStatus.CREATED


@blueprint.get("/<name>/people")
@operation(Scope.READ, _TAG, PeoplePage, 404)
def list_people(name: str, query: WhichPeople) -> Any:
    """Tell what became of the people of a campaign, in the order of the list."""
    wanted = Wanted(query.status, query.q)
    found = application().campaign_progress.outcomes(name, wanted, limit=query.limit + 1, after=query.cursor)
    following = found[query.limit - 1].number if len(found) > query.limit else None
    return {"people": as_json(found[: query.limit]), "nextCursor": following}


@blueprint.get("/<name>/export.csv")
@operation(Scope.READ, _TAG, None, 404)
def export_people(name: str) -> Any:
    """Answer what became of everybody as CSV, in the order of the list."""
    headers = {
        "Content-Type": "text/csv; charset=utf-8",
        "Content-Disposition": "attachment; filename=campaign.csv",
    }
    return application().campaign_progress.as_csv(name, Wanted()), HTTPStatus.OK, headers


def _window(between: str | None, weekdays: str | None, zone: str | None) -> SendingWindow | None:
    return parse_window(between, weekdays, zone, usual_zone=application().settings.timezone)


def _changes() -> CampaignChanges:
    return application().campaign_changes.by(who())


def _steered(campaign: Any) -> dict[str, Any]:
    return {"id": campaign.id, "name": campaign.name, "state": campaign.state}
