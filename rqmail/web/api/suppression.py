"""The suppression list: who gets no mail, and why."""

from __future__ import annotations

from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from flask import Blueprint
from pydantic import AfterValidator, Field
from spectree.model_adapter.pydantic_adapter import BaseFile

from rqmail.administration.access import Scope
from rqmail.campaigns.suppression import place
from rqmail.insight.jsonable import as_json
from rqmail.web.api.document import operation
from rqmail.web.api.schema import ApiModel, Line, Paging
from rqmail.web.context import application, changes
from rqmail.web.uploads import one_file, takes_file

blueprint = Blueprint("suppression", __name__, url_prefix="/admin/suppressions")

_TAG = "Suppression"

ReasonName = Literal["hard-bounce", "complaint", "unsubscribe", "manual", "import"]

_Tenant = Annotated[Line | None, Field(description="For mail of this tenant alone; left out, for all mail")]


class SuppressionOf(ApiModel):
    """An address that gets no mail, of all senders or (with tenant) of that tenant alone.

    unsubscribedOn is when its owner unsubscribed, also where the reason is a harder one by now.
    """

    address: str
    tenant: str | None
    reason: ReasonName
    source: str
    since: datetime
    unsubscribed_on: datetime | None


class SuppressionPage(ApiModel):
    """Addresses that get no mail, by address; nextCursor is null on the last page."""

    suppressions: list[SuppressionOf]
    next_cursor: str | None


class NewSuppression(ApiModel):
    """An address that is to get no mail."""

    address: Line
    tenant: _Tenant = None
    reason: ReasonName = "manual"


class WhichSuppressions(Paging):
    """Which addresses, and which part of the list; q is an address or a part of one."""

    q: Line = ""
    tenant: Annotated[Line | None, Field(description="Only what holds for this tenant alone")] = None
    reason: ReasonName | None = None


class OfTenant(ApiModel):
    """Whose entry: that for all mail, or a tenant's own."""

    tenant: _Tenant = None


class SuppressionFile(ApiModel):
    """A list of addresses, one a line, or a table with a column address and optional reason and since."""

    file: Annotated[BaseFile, AfterValidator(one_file)]
    tenant: _Tenant = None
    reason: Annotated[ReasonName, Field(description="Where a row has none")] = "import"
    dry_run: Annotated[bool, Field(description="Check everything, store nothing")] = False


class BadAddressOf(ApiModel):
    """What is wrong in one row."""

    row: int
    field: str
    message: str


class SuppressionReport(ApiModel):
    """What became of a file: nothing is stored when a row is bad; known counts rows that bring nothing new."""

    rows: int
    added: int
    known: int
    error_count: int
    errors: list[BadAddressOf]
    dry_run: bool


class BadSuppressionFile(SuppressionReport):
    """Rows of a file cannot be used, so nothing was stored."""

    error: str
    field_errors: dict[str, str]


@blueprint.get("")
@operation(Scope.READ, _TAG, SuppressionPage)
def list_suppressions(query: WhichSuppressions) -> Any:
    """List addresses that get no mail."""
    found = application().suppressions.find(
        search=query.q, tenant=query.tenant, reason=query.reason, limit=query.limit + 1, after=query.cursor
    )
    following = place(found[query.limit - 1]) if len(found) > query.limit else None
    return {"suppressions": as_json(found[: query.limit]), "nextCursor": following}


@blueprint.post("")
@operation(Scope.ADMIN, _TAG, SuppressionOf, status=201)
def suppress(json: NewSuppression) -> Any:
    """Let an address get no mail from now on; one that is there already keeps the harder reason."""
    return as_json(changes().suppress(json.address, tenant=json.tenant, reason=json.reason)), HTTPStatus.CREATED


@blueprint.delete("/<address>")
@operation(Scope.ADMIN, _TAG, SuppressionOf, 404)
def unsuppress(address: str, query: OfTenant) -> Any:
    """Let an address get mail again; the answer is what stood against it."""
    return as_json(changes().unsuppress(address, tenant=query.tenant))


@blueprint.post("/import")
@takes_file
@operation(Scope.ADMIN, _TAG, SuppressionReport, others={422: BadSuppressionFile})
def import_suppressions(form: SuppressionFile) -> Any:
    """Let every address of a file get no mail from now on: all of them, or none (422)."""
    uploaded: Any = form.file
    report = changes().import_suppressions(
        uploaded.stream, uploaded.filename or "", tenant=form.tenant, reason=form.reason, dry_run=form.dry_run
    )
    told = as_json(report) | {"dryRun": form.dry_run}
    if report.error_count:
        text = f"{report.error_count:,} of {report.rows:,} rows cannot be used; nothing was stored."
        return told | {"error": text, "fieldErrors": {"file": text}}, HTTPStatus.UNPROCESSABLE_ENTITY
    return told


@blueprint.get("/export.csv")
@operation(Scope.READ, _TAG, None)
def export_suppressions() -> Any:
    """Answer the whole list as CSV, as the import reads it."""
    headers = {
        "Content-Type": "text/csv; charset=utf-8",
        "Content-Disposition": "attachment; filename=suppressions.csv",
    }
    return application().suppressions.as_csv(), HTTPStatus.OK, headers
