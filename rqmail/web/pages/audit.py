"""The audit: who changed what, when, and how it was before."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from flask import Blueprint, render_template, request

from rqmail.administration.access import Scope
from rqmail.administration.audit import AuditLine
from rqmail.web.auth import require
from rqmail.web.context import application

blueprint = Blueprint("audit", __name__, url_prefix="/audit")

_PAGE = 50

#: Fields that change with every change and tell nothing about it.
_UNTOLD = frozenset({"changedOn", "createdOn"})


@dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not what it was; nothing before or after is ``None``."""

    field: str
    before: str | None
    after: str | None


@blueprint.get("")
@require(Scope.ADMIN)
def list_changes() -> str:
    """Show changes, newest first, all or those of one thing."""
    subject = request.args.get("subject", "").strip()
    lines = application().audit.lines(subject=subject or None, limit=_PAGE + 1, after=request.args.get("after") or None)
    return render_template(
        "pages/audit.html",
        lines=lines[:_PAGE],
        after=lines[_PAGE - 1].id if len(lines) > _PAGE else None,
        subject=subject,
    )


@blueprint.app_template_filter("differences")
def differences(line: AuditLine) -> list[Difference]:
    """Tell what a change changed, field by field."""
    before, after = dict(_flat(line.before)), dict(_flat(line.after))
    fields = [field for field in dict.fromkeys([*before, *after]) if field.rpartition(".")[2] not in _UNTOLD]
    return [
        Difference(field, before.get(field), after.get(field))
        for field in fields
        if before.get(field) != after.get(field)
    ]


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Walk through a JSON value and answer its leaves by their dotted names; what is empty is left out."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _flat(item, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        if value:
            yield name, ", ".join(map(str, value))
    elif value is not None:
        yield name, str(value).lower() if isinstance(value, bool) else str(value)
