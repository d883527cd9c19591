"""Searching a mailbox and showing what was found, as the query string asks."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from rqmail.sandbox.answers import GraphRefusal
from rqmail.sandbox.mailbox import Mailbox, StoredMessage
from rqmail.sandbox.odata import Filter, sort_key

_KNOWN = ("$filter", "$top", "$skip", "$select", "$expand", "$orderby", "$count")
_EXPAND = re.compile(r"\s*(\w+)\s*(?:\(\s*\$filter=(.*)\)\s*)?", re.DOTALL)
_FILTERABLE = re.compile(
    r"subject|internetMessageId|isDraft|isRead|importance|hasAttachments|conversationId|singleValueExtendedProperties"
    r"|(?:created|lastModified|received|sent)DateTime|(?:from|sender)/emailAddress/(?:address|name)"
)
#: Shown only when selected.
_HIDDEN = ("internetMessageHeaders", "singleValueExtendedProperties", "multiValueExtendedProperties", "uniqueBody")
_INTERNET_HEADERS = "String {00020386-0000-0000-C000-000000000046}"
_DEFAULTS: Mapping[str, Any] = {
    "categories": [],
    "subject": "",
    "importance": "normal",
    "isRead": False,
    "isDraft": False,
    "body": {"contentType": "text", "content": ""},
    "toRecipients": [],
    "ccRecipients": [],
    "bccRecipients": [],
    "replyTo": [],
    "flag": {"flagStatus": "notFlagged"},
}


@dataclass(frozen=True, slots=True)
class Found:
    """One page of a search; ``total`` counts all of it."""

    page: list[StoredMessage]
    total: int
    has_more: bool


class MessageQuery:
    """The query options of one request, checked."""

    def __init__(self, options: Mapping[str, str]) -> None:
        for name in options:
            if name.startswith("$") and name not in _KNOWN:
                raise GraphRefusal(400, "BadRequest", f"The query parameter '{name}' is not supported.")
        self.top = _whole(options, "$top", 10, 1, 1000)
        self.skip = _whole(options, "$skip", 0, 0, 10**9)
        self.wants_count = options.get("$count") == "true"
        self.select = [name.strip() for name in options.get("$select", "").split(",") if name.strip()]
        self.filter = Filter(options["$filter"]) if options.get("$filter") else None
        self.order = _order(options.get("$orderby", ""))
        self.expand = _expand(options.get("$expand", ""))
        self._check_fields()

    def run(self, mailbox: Mailbox, folder: str | None, now: float) -> Found:
        """Search ``mailbox`` (one ``folder`` or all), newest first unless ordered otherwise."""
        found: Iterable[StoredMessage] = mailbox.messages(folder, now)
        if self.filter is not None:
            matches = self.filter.matches
            found = (stored for stored in found if matches(_with_headers(stored.properties)))
        listed = list(found)
        if self.order:
            for path, descending in reversed(self.order):
                key = sort_key(path)
                listed.sort(key=lambda stored, key=key: key(stored.properties), reverse=descending)  # type: ignore[misc]
        else:
            listed.reverse()
        end = self.skip + self.top
        return Found(listed[self.skip : end], len(listed), len(listed) > end)

    def _check_fields(self) -> None:
        named = self.filter.fields if self.filter else []
        for path in [*named, *(path for path, _ in self.order)]:
            if not _FILTERABLE.fullmatch(path):
                raise GraphRefusal(
                    400, "RequestBroker--ParseUri", f"Could not find a property named '{path}' to filter or sort by."
                )
        ordered = [path for path, _ in self.order]
        if named and ordered and named[: len(ordered)] != ordered:
            raise GraphRefusal(
                400, "InefficientFilter", "The restriction or sort order is too complex for this operation."
            )


def message_view(stored: StoredMessage, mailbox: Mailbox, query: MessageQuery, *, immutable: bool) -> dict[str, Any]:
    """Show one message with the properties ``query`` selects and expands."""
    properties = {**_DEFAULTS, **stored.properties}
    body = properties["body"]
    view: dict[str, Any] = {
        "id": stored.immutable_id if immutable else stored.id,
        **{name: value for name, value in properties.items() if name not in _HIDDEN or name in query.select},
        "bodyPreview": body.get("content", "")[:255],
        "hasAttachments": bool(stored.attachments),
        "parentFolderId": mailbox.folder_id(stored.folder),
        "changeKey": base64.b64encode(f"{stored.folder}{properties.get('lastModifiedDateTime')}".encode()).decode(),
    }
    if query.select:
        wanted = {"id", *query.select}
        view = {name: value for name, value in view.items() if name in wanted}
    view["@odata.etag"] = f'W/"{stored.immutable_id[:24]}"'
    for name, restriction in query.expand.items():
        elements: list[dict[str, Any]] = (
            stored.attachments if name == "attachments" else stored.properties.get(name, [])
        )
        shown = [
            element for element in elements if restriction is None or restriction.matches({"": element, **element})
        ]
        if shown or name == "attachments":
            view[name] = shown
    return view


def _with_headers(properties: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer a message as it is searched: each of its custom headers is a property of that name too."""
    headers = [
        {"id": f"{_INTERNET_HEADERS} Name {one['name']}", "value": one.get("value", "")}
        for one in properties.get("internetMessageHeaders", [])
    ]
    named = "singleValueExtendedProperties"
    return {**properties, named: [*properties.get(named, []), *headers]} if headers else properties


def _expand(text: str) -> dict[str, Filter | None]:
    result: dict[str, Filter | None] = {}
    for part in re.split(r",(?![^(]*\))", text) if text.strip() else []:
        found = _EXPAND.fullmatch(part)
        if found is None or found[1] not in ("attachments", "singleValueExtendedProperties"):
            raise GraphRefusal(400, "RequestBroker--ParseUri", f"Could not expand '{part[:80]}'.")
        if found[1] == "singleValueExtendedProperties" and not found[2]:
            raise GraphRefusal(400, "ErrorInvalidRequest", "Expanding extended properties needs a $filter on their id.")
        result[found[1]] = Filter(found[2]) if found[2] else None
    return result


def _order(text: str) -> list[tuple[str, bool]]:
    order = []
    for part in text.split(","):
        words = part.split()
        if not words:
            continue
        if len(words) > 2 or words[1:] not in ([], ["asc"], ["desc"]):
            raise GraphRefusal(400, "BadRequest", f"Invalid $orderby clause: '{part[:80]}'.")
        order.append((words[0], words[1:] == ["desc"]))
    return order


def _whole(options: Mapping[str, str], name: str, default: int, low: int, high: int) -> int:
    text = options.get(name)
    if text is None:
        return default
    if not text.isdecimal() or not low <= int(text) <= high:
        raise GraphRefusal(400, "BadRequest", f"Invalid value '{text[:20]}' for {name}: {low} to {high} is allowed.")
    return int(text)
