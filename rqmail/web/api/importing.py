"""Files of messages are handed in, looked at and undone."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any, Literal

from flask import Blueprint
from pydantic import AfterValidator, BeforeValidator, Field, model_validator
from spectree.model_adapter.pydantic_adapter import BaseFile

from rqmail.administration.access import Scope
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.insight.jsonable import as_json
from rqmail.intake.bad_rows import as_csv
from rqmail.intake.files import reading_of
from rqmail.intake.importing import MOST_REMEMBERED, Import, ImportState
from rqmail.intake.notices import NoticeCode
from rqmail.web.api.document import operation
from rqmail.web.api.paging import page
from rqmail.web.api.schema import ApiModel, Line, Paging, listed, sender_named
from rqmail.web.auth import keeps_to_mailboxes
from rqmail.web.context import application, changes, may_send_from, principal, who
from rqmail.web.errors import FieldsError, ForbiddenError, ForbiddenSenderError
from rqmail.web.uploads import one_file, takes_file

blueprint = Blueprint("importing", __name__, url_prefix="/messages/imports")

_TAG = "Imports"

#: What intake calls a field is what the command line calls it.
_FIELDS = {"date-format": "dateFormat", "column": "columns"}


class NewImport(ApiModel):
    """A file of messages and how it is to be read; sent from a system mailbox, a tenant, or (with neither) the default.

    The file is CSV, .xlsx, .ods or JSON, with the columns to, subject, text and/or html, and optional cc, bcc, at,
    priority, expires, reply_to, importance, read_receipt, delivery_receipt, unsubscribe, unsubscribe_url and
    header:NAME. Files are attached by the command line alone: rqmail import --attachments-dir.
    """

    file: Annotated[BaseFile, AfterValidator(one_file)]
    mailbox: Line | None = None
    tenant: Line | None = None
    format: Annotated[Literal["csv", "jsonl"] | None, Field(description="Left out, it is told by the file's name")] = (
        None
    )
    encoding: Annotated[Line | None, Field(description="Left out, it is found out")] = None
    delimiter: Annotated[
        Literal[",", ";", "tab", "|"] | None, Field(description="What stands between cells; left out, it is found out")
    ] = None
    sheet: Annotated[Line | None, Field(description="The sheet of a spreadsheet; left out, the first")] = None
    columns: Annotated[
        list[Line],
        BeforeValidator(listed),
        Field(max_length=20, description="What the file calls a column of ours: to=E-mail; once for each column"),
    ] = []  # noqa: RUF012 - pydantic copies it
    ignore_other_columns: Annotated[bool, Field(description="Pass over columns that are none of ours")] = False
    timezone: Annotated[Line | None, Field(description="Where times without a zone are local")] = None
    date_format: Annotated[Line | None, Field(description="How times are written, such as %d-%m-%Y %H:%M")] = None
    skip_duplicates: Annotated[bool, Field(description="Leave out rows whose recipients earlier rows have")] = False
    ignore_unsubscribed: Annotated[bool, Field(description="Also to who unsubscribed")] = False
    dry_run: Annotated[bool, Field(description="Check everything, store nothing")] = False

    @model_validator(mode="after")
    def _one_sender(self) -> NewImport:
        if self.mailbox is not None and self.tenant is not None:
            raise ValueError("mailbox and tenant exclude each other")
        return self


class RowErrorOf(ApiModel):
    """What is wrong in one row, counted as a spreadsheet or editor shows them; field is the column."""

    row: int
    field: str
    message: str


class DuplicateOf(ApiModel):
    """A row all of whose recipients earlier rows have, and the first of them."""

    row: int
    address: str


class SuppressedRowOf(ApiModel):
    """Somebody a row's message does not go to, and why."""

    row: int
    address: str
    reason: str


class RowNoticeOf(ApiModel):
    """Something about a row's message that is taken in all the same; code says what it is, about what it is about."""

    row: int
    field: str
    text: str
    code: NoticeCode
    about: str


class FileReport(ApiModel):
    """What was found in a file: at most 1,000 errors and duplicates by row, the counts are of all.

    encoding is what it was read in (empty for a spreadsheet), delimiter what stands between the cells of a CSV file,
    passedOver the rows above its header; skipped counts the duplicates that were left out, suppressed the recipients
    that get nothing because they are suppressed, emptied the rows left out for having no others, notices what one
    should know, such as files that Exchange keeps from their recipients.
    """

    rows: int
    stored: int
    error_count: int
    errors: list[RowErrorOf]
    encoding: str
    delimiter: str
    passed_over: list[str]
    duplicates: int
    skipped: int
    duplicate_rows: list[DuplicateOf]
    suppressed: int
    emptied: int
    suppressed_rows: list[SuppressedRowOf]
    notices: int
    notice_rows: list[RowNoticeOf]


class ImportResult(FileReport):
    """What became of a file; id names its import, and is null after a dry run."""

    id: str | None
    dry_run: bool


class BadFile(ImportResult):
    """Rows of a file cannot be used, so nothing was stored; all of them are at /messages/imports/ID/errors.csv."""

    error: str
    field_errors: dict[str, str]


class ImportInList(ApiModel):
    """One import: expected messages come of its rows, stored of them are there by now."""

    id: str
    who: str
    file_name: str
    sender: str
    state: ImportState
    rows: int
    expected: int
    stored: int
    created_on: datetime
    ended_on: datetime | None
    ended_by: str | None


class ImportInFull(ImportInList):
    """One import with what was found in its file, and how many of its messages are in which status."""

    report: FileReport
    messages: dict[str, int]


class ImportPage(ApiModel):
    """Imports, newest first; nextCursor is null on the last page."""

    imports: list[ImportInList]
    next_cursor: str | None


class Undone(ApiModel):
    """An import was undone, and so many messages were cancelled."""

    id: str
    cancelled: int


@blueprint.post("")
@keeps_to_mailboxes
@takes_file
@operation(Scope.SEND, _TAG, ImportResult, status=201, others={200: ImportResult, 422: BadFile})
def import_file(form: NewImport) -> Any:
    """Hand in a file of messages: all of its rows are taken in (201), or none (422), or it is only checked (200)."""
    app = application()
    sender = sender_named(form.mailbox, form.tenant) or "default"
    if not may_send_from(sender):
        raise ForbiddenSenderError
    uploaded: Any = form.file
    name = uploaded.filename or ""
    try:
        reading = reading_of(
            name,
            format_=form.format,
            encoding=form.encoding,
            sheet=form.sheet,
            columns=form.columns,
            ignore_other_columns=form.ignore_other_columns,
            timezone=form.timezone or app.settings.timezone,
            date_format=form.date_format,
            delimiter=form.delimiter,
        )
        report = app.imports.by(who()).take(
            uploaded.stream,
            sender,
            reading,
            name=name,
            dry_run=form.dry_run,
            skip_duplicates=form.skip_duplicates,
            ignore_unsubscribed=form.ignore_unsubscribed,
            errors_told=MOST_REMEMBERED,
        )
    except InvalidInputError as error:
        raise FieldsError({_FIELDS.get(error.field, error.field): error.allowed}) from None
    told = _report(as_json(report)) | {"id": report.import_id, "dryRun": form.dry_run}
    if report.error_count:
        text = f"{report.error_count:,} of {report.rows:,} rows cannot be used; nothing was stored."
        return told | {"error": text, "fieldErrors": {"file": text}}, HTTPStatus.UNPROCESSABLE_ENTITY
    return told, HTTPStatus.OK if form.dry_run else HTTPStatus.CREATED


@blueprint.get("")
@operation(Scope.READ, _TAG, ImportPage)
def list_imports(query: Paging) -> Any:
    """List imports, newest first."""
    found = application().imports.recent(limit=query.limit + 1, after=query.cursor)
    return page("imports", [{name: as_json(one)[name] for name in _IN_LIST} for one in found], query.limit)


@blueprint.get("/<import_id>")
@keeps_to_mailboxes
@operation(Scope.READ, _TAG, ImportInFull, 404)
def show_import(import_id: str) -> Any:
    """Show one import: how far it is, what was found in its file, and where its messages are."""
    told = as_json(_reached(import_id))
    return told | {"report": _report(told["report"])}


@blueprint.get("/<import_id>/errors.csv")
@keeps_to_mailboxes
@operation(Scope.READ, _TAG, None, 404)
def list_errors(import_id: str) -> Any:
    """Answer every bad row of a refused file as CSV, with what is wrong in a last column: to be mended and imported."""
    _reached(import_id)
    rows: Iterator[str] = as_csv(application().imports.bad_rows(import_id))
    headers = {
        "Content-Type": "text/csv; charset=utf-8",
        "Content-Disposition": "attachment; filename=errors.csv",
    }
    return rows, HTTPStatus.OK, headers


@blueprint.post("/<import_id>/undo")
@keeps_to_mailboxes
@operation(Scope.SEND, _TAG, Undone, 404, 409)
def undo_import(import_id: str) -> Any:
    """Cancel all messages of an import, while none of them has been sent; one's own, or as admin anybody's."""
    asking = principal()
    if _reached(import_id).who != who() and (asking is None or not asking.may(Scope.ADMIN)):
        raise ForbiddenError(Scope.ADMIN)
    return {"id": import_id, "cancelled": changes().undo_import(import_id)}


def _reached(import_id: str) -> Import:
    """Answer an import; one of a sender that the token does not reach is not found."""
    found = application().imports.find(import_id)
    if not may_send_from(found.sender):
        raise NotFoundError("import", import_id)
    return found


_IN_LIST = (
    "id", "who", "fileName", "sender", "state", "rows", "expected", "stored", "createdOn", "endedOn", "endedBy",
)  # fmt: skip


def _report(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "importId"}
