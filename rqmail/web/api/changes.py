"""The audit: who changed what, and when."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from flask import Blueprint

from rqmail.administration.access import Scope
from rqmail.insight.jsonable import as_json
from rqmail.web.api.document import operation
from rqmail.web.api.paging import page
from rqmail.web.api.schema import ApiModel, Line, Paging
from rqmail.web.context import application

blueprint = Blueprint("changes", __name__, url_prefix="/admin/audit")


class Entry(ApiModel):
    """One change: before and after are the thing as the API shows it, null where there was or is none."""

    id: str
    at: datetime
    who: str
    action: str
    subject: str
    before: Any
    after: Any


class Entries(ApiModel):
    """Changes, newest first; nextCursor is null on the last page."""

    entries: list[Entry]
    next_cursor: str | None


class WhichEntries(Paging):
    """Which changes: all, or those of one thing (``mailbox:news``, ``tenant:acme``, ``message:…``, ``token:app``)."""

    subject: Line | None = None


@blueprint.get("")
@operation(Scope.ADMIN, "Audit", Entries)
def list_changes(query: WhichEntries) -> Any:
    """List changes, newest first."""
    found = application().audit.lines(subject=query.subject, limit=query.limit + 1, after=query.cursor)
    return page("entries", as_json(found), query.limit)
