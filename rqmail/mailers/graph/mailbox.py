"""Looks into a mailbox for a mail we may have sent."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailboxNotReadableError, MailTransientError
from rqmail.mailers.base import wire_address
from rqmail.mailers.graph.errors import error_for_answer, read_problem
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.message import ID_PROPERTY
from rqmail.mailers.http.transport import Answer

Folder = Literal["sentitems", "drafts", "outbox"]

#: Where an accepted mail can be, the likeliest first.
_FOLDERS: tuple[Folder, ...] = ("sentitems", "drafts", "outbox")

_ANSWER_LIMIT = 1024 * 1024

#: Pages of one folder that are looked through: a page may be empty and still name a next one.
_MOST_PAGES = 20
_FOLDER_MISSING = frozenset({"erroritemnotfound", "errorfoldernotfound"})


@dataclass(frozen=True, slots=True)
class Sighting:
    """A mail of ours was seen in ``folder``; ``at`` is when the mailbox sent or made it."""

    folder: Folder
    provider_message_id: str
    at: datetime
    internet_message_id: str | None = None


class GraphMailbox:
    """The read side of one mailbox; needs Mail.Read on it: Mail.ReadBasic leaves out the property we look for."""

    def __init__(self, http: GraphHttp, base_url: str, mailbox_address: str, *, clock: Clock = utc_now) -> None:
        self._http = http
        self._folders_url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}/mailFolders"
        self._clock = clock

    def find_sent(self, message_id: str, since: datetime) -> Sighting | None:
        """Look for our mail ``message_id``, not older than ``since``, in Sent Items, then Drafts, then Outbox.

        Copies appear with a delay: ``None`` proves nothing for some minutes. Raises ``MailboxNotReadableError`` where
        we may not look, and another ``MailError`` when the answer must be asked for again later.
        """
        for folder in _FOLDERS:
            sighting = self._find_in(folder, message_id, since)
            if sighting:
                return sighting
        return None

    def _find_in(self, folder: Folder, message_id: str, since: datetime) -> Sighting | None:
        value = message_id.replace("'", "''")
        wanted = f"singleValueExtendedProperties/any(ep: ep/id eq '{ID_PROPERTY}' and ep/value eq '{value}')"
        url = (
            f"{self._folders_url}/{folder}/messages?$filter={quote(wanted, safe='')}"
            "&$select=id,internetMessageId,createdDateTime,sentDateTime&$top=10"
        )
        found: list[Sighting] = []
        for _ in range(_MOST_PAGES):
            answer = self._http.request("GET", url, {"Accept": "application/json"}, limit=_ANSWER_LIMIT)
            if answer.status != 200:
                self._raise_unless_folder_is_missing(answer)
                break
            page = _page(answer)
            found += (self._sighting(folder, row) for row in page.rows)
            if page.next_url is None:
                break
            url = self._followed(page.next_url)
        else:
            raise _unreadable()
        return max((s for s in found if s.at >= since), key=lambda s: s.at, default=None)

    def _followed(self, next_url: str) -> str:
        """Answer the address of the next page; one on another host than Graph's would be given our token."""
        if urlsplit(next_url)[:2] != urlsplit(self._folders_url)[:2]:
            raise _unreadable()
        return next_url

    def _raise_unless_folder_is_missing(self, answer: Answer) -> None:
        if answer.status == 404 and (read_problem(answer.body).code or "").lower() in _FOLDER_MISSING:
            return
        error = error_for_answer(answer.status, answer.headers, answer.body, self._clock())
        if answer.status == 403:
            raise MailboxNotReadableError(
                f"We may not read this mailbox, so what happened to a mail cannot be looked up; "
                f"grant the app Mail.Read on it ({error.code or 'no code'}, status 403)",
                status=403,
                code=error.code,
                request_id=error.request_id,
                client_request_id=error.client_request_id,
            )
        raise error

    def _sighting(self, folder: Folder, row: dict[str, Any]) -> Sighting:
        try:
            at = datetime.fromisoformat(row.get("sentDateTime") or row["createdDateTime"])
            sighting = Sighting(folder, str(row["id"]), at, row.get("internetMessageId"))
        except (KeyError, TypeError, ValueError):
            raise _unreadable() from None
        if at.tzinfo is None:
            raise _unreadable()
        return sighting


@dataclass(frozen=True, slots=True)
class _Page:
    """One page of a list of messages, and where the next one is."""

    rows: list[dict[str, Any]]
    next_url: str | None


def _page(answer: Answer) -> _Page:
    try:
        document = json.loads(answer.body)
        rows, next_url = document["value"], document.get("@odata.nextLink")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _unreadable() from None
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise _unreadable()
    if next_url is not None and not isinstance(next_url, str):
        raise _unreadable()
    return _Page(rows, next_url)


def _unreadable() -> MailTransientError:
    return MailTransientError("Microsoft Graph's list of messages could not be read; ask again later", status=200)
