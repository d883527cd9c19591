"""Our own copies in a mailbox's Sent Items: found, and removed for good; needs Mail.ReadWrite on it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailTransientError
from rqmail.mailers.base import wire_address
from rqmail.mailers.graph.errors import error_for_answer
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.message import ID_PROPERTY

_ANSWER_LIMIT = 1024 * 1024
_A_PAGE = 100


@dataclass(frozen=True, slots=True)
class Copy:
    """One item in Sent Items that carries our property: the id of its message, and its own."""

    message_id: str
    item_id: str


class SentCopies:
    """Lists what we have sent from one mailbox and removes it; an item without our property is never touched."""

    def __init__(self, http: GraphHttp, base_url: str, mailbox_address: str, *, clock: Clock = utc_now) -> None:
        self._http = http
        self._user_url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}"
        self._clock = clock

    def pages(self, before: datetime) -> Iterator[list[Copy]]:
        """List our copies that were sent before then, page by page; raises a ``MailError`` where that is not to be."""
        moment = before.strftime("%Y-%m-%dT%H:%M:%SZ")
        ours = f"singleValueExtendedProperties/any(ep: ep/id eq '{ID_PROPERTY}' and ep/value ne null)"
        expanded = f"singleValueExtendedProperties($filter=id eq '{ID_PROPERTY}')"
        url: str | None = (
            f"{self._user_url}/mailFolders/sentitems/messages?$filter={quote(f'sentDateTime lt {moment} and {ours}')}"
            f"&$select=id&$expand={quote(expanded)}&$top={_A_PAGE}"
        )
        while url is not None:
            answer = self._http.request("GET", url, {"Accept": "application/json"}, limit=_ANSWER_LIMIT)
            if answer.status != 200:
                raise error_for_answer(answer.status, answer.headers, answer.body, self._clock())
            try:
                page = json.loads(answer.body)
                copies = [copy for row in page["value"] if (copy := _copy(row)) is not None]
                url = page.get("@odata.nextLink")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise MailTransientError("Microsoft Graph's list of copies could not be read", status=200) from None
            if url is not None and urlsplit(url)[:2] != urlsplit(self._user_url)[:2]:
                raise MailTransientError("Microsoft Graph's list of copies goes on elsewhere", status=200)
            yield copies

    def remove(self, copy: Copy) -> None:
        """Remove a copy for good: one in Deleted Items would fill the mailbox all the same. Gone is well."""
        url = f"{self._user_url}/messages/{quote(copy.item_id, safe='')}/permanentDelete"
        answer = self._http.request("POST", url, {"Content-Length": "0"}, b"")
        if answer.status not in {200, 202, 204, 404}:
            raise error_for_answer(answer.status, answer.headers, answer.body, self._clock())


def _copy(row: dict[str, object]) -> Copy | None:
    """Answer the copy an item is; ``None`` for one that does not carry our property, whatever was asked for."""
    properties = row.get("singleValueExtendedProperties")
    for one in properties if isinstance(properties, list) else []:
        if str(one.get("id", "")).lower() == ID_PROPERTY.lower() and one.get("value"):
            return Copy(str(one["value"]), str(row["id"]))
    return None
