"""Looks into a mailbox for a mail we may have sent, and clears away drafts of ours that were not."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from urllib.parse import quote, urlsplit

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailAuthError, MailboxNotReadableError, MailboxNotWritableError, MailTransientError
from rqmail.mailers.base import wire_address
from rqmail.mailers.graph.errors import error_for_answer, read_problem
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.message import ID_HEADER, ID_PROPERTY, INTERNET_HEADERS, UPLOAD_PROPERTY, internet_message_id
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
    """A mail of ours was seen in ``folder``; ``at`` is when the mailbox sent or made it.

    With ``is_upload`` it is a draft that we made ourselves to upload files to: it lies there unsent.
    """

    folder: Folder
    provider_message_id: str
    at: datetime
    internet_message_id: str | None = None
    is_upload: bool = False


class GraphMailbox:
    """What of one mailbox is looked at, and cleared away, beside sending.

    Looking needs Mail.Read on it (Mail.ReadBasic leaves out the property we look for), clearing away Mail.ReadWrite.
    With ``marked`` false what is looked for was sent without our property: it is found by its header, which is a
    property too where the mailbox knows the name, or by its Message-ID.
    """

    def __init__(
        self, http: GraphHttp, base_url: str, mailbox_address: str, *, clock: Clock = utc_now, marked: bool = True
    ) -> None:
        self._http = http
        self._user_url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}"
        self._folders_url = f"{self._user_url}/mailFolders"
        self._clock = clock
        self._address = mailbox_address
        self._marked = marked

    def find_sent(self, message_id: str, since: datetime) -> Sighting | None:
        """Look for our mail ``message_id``, not older than ``since``, in Sent Items, then Drafts, then Outbox.

        Copies appear with a delay: ``None`` proves nothing for some minutes. Raises ``MailboxNotReadableError`` where
        we may not look, and another ``MailError`` when the answer must be asked for again later. A draft to upload to
        is named only where nothing else was found.
        """
        upload: Sighting | None = None
        for folder in _FOLDERS:
            found = [one for one in self._found_in(folder, message_id) if one.at >= since]
            accepted = [one for one in found if not one.is_upload]
            if accepted:
                return max(accepted, key=lambda one: one.at)
            upload = upload or next(iter(found), None)
        return upload

    def remove_uploads(self, message_id: str) -> bool:
        """Remove the drafts we made for ``message_id`` to upload files to; say whether all were there to be removed.

        ``False`` is one that was not there any more: it may just have been sent. Raises ``MailboxNotWritableError``
        where we may not.
        """
        removed = True
        # By ids that end with the message's place: what is just leaving Drafts for Sent Items is not met by them.
        for one in self._found_in("drafts", message_id, immutable_ids=False):
            if one.is_upload:
                removed &= self._remove(one.provider_message_id)
        return removed

    def _remove(self, provider_message_id: str) -> bool:
        url = f"{self._user_url}/messages/{quote(provider_message_id, safe='')}"
        answer = self._http.request("DELETE", url, {"Accept": "application/json"}, immutable_ids=False)
        if answer.status == 404 and (read_problem(answer.body).code or "").lower() in _FOLDER_MISSING:
            return False
        if answer.status not in (200, 204):
            raise not_writable(answer, self._clock()) or error_for_answer(
                answer.status, answer.headers, answer.body, self._clock()
            )
        return True

    def _found_in(self, folder: Folder, message_id: str, *, immutable_ids: bool = True) -> list[Sighting]:
        found: dict[str, Sighting] = {}
        for wanted in self._wanted(message_id):
            for one in self._found_by(wanted, folder, message_id, immutable_ids=immutable_ids):
                found.setdefault(one.provider_message_id, one)
        return list(found.values())

    def _wanted(self, message_id: str) -> list[str]:
        """Answer the conditions by each of which the mail is found."""
        if self._marked:
            return [_has_property(ID_PROPERTY, message_id)]
        ids = (internet_message_id(message_id, self._address, upload=upload) for upload in (False, True))
        by_id = " or ".join(f"internetMessageId eq '{_quoted(one)}'" for one in ids)
        return [_has_property(INTERNET_HEADERS + ID_HEADER, message_id), by_id]

    def _found_by(self, wanted: str, folder: Folder, message_id: str, *, immutable_ids: bool) -> list[Sighting]:
        url = (
            f"{self._folders_url}/{folder}/messages?$filter={quote(wanted, safe='')}"
            "&$select=id,internetMessageId,createdDateTime,sentDateTime&$top=10"
        )
        if folder == "drafts":
            named = f"id eq '{UPLOAD_PROPERTY}'" + ("" if self._marked else f" or id eq '{ID_PROPERTY}'")
            uploads = f"singleValueExtendedProperties($filter={named})"
            url += f"&$expand={quote(uploads, safe='')}"
        found: list[Sighting] = []
        for _ in range(_MOST_PAGES):
            answer = self._http.request(
                "GET", url, {"Accept": "application/json"}, limit=_ANSWER_LIMIT, immutable_ids=immutable_ids
            )
            if answer.status != 200:
                self._raise_unless_folder_is_missing(answer)
                break
            page = _page(answer)
            found += (self._sighting(folder, row, message_id) for row in page.rows)
            if page.next_url is None:
                break
            url = self._followed(page.next_url)
        else:
            raise _unreadable()
        return found

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

    def _sighting(self, folder: Folder, row: dict[str, Any], message_id: str) -> Sighting:
        try:
            at = datetime.fromisoformat(row.get("sentDateTime") or row["createdDateTime"])
            properties = row.get("singleValueExtendedProperties") or [] if folder == "drafts" else []
            is_upload = any(str(one["id"]).lower() == UPLOAD_PROPERTY.lower() for one in properties)
            told = row.get("internetMessageId")
            if not self._marked and folder == "drafts" and not is_upload:
                # Not handed over in one request, which has the other id of ours, and not marked yet: ours to be filled.
                is_upload = not properties and told != internet_message_id(message_id, self._address)
            sighting = Sighting(folder, str(row["id"]), at, told, is_upload)
        except (KeyError, TypeError, ValueError):
            raise _unreadable() from None
        if at.tzinfo is None:
            raise _unreadable()
        return sighting


def _has_property(name: str, value: str) -> str:
    return f"singleValueExtendedProperties/any(ep: ep/id eq '{name}' and ep/value eq '{_quoted(value)}')"


def _quoted(value: str) -> str:
    return value.replace("'", "''")


def not_writable(answer: Answer, now: datetime) -> MailboxNotWritableError | None:
    """Say that Mail.ReadWrite is missing, where that is what the answer to a change means; else ``None``."""
    if answer.status != 403:
        return None
    error = error_for_answer(answer.status, answer.headers, answer.body, now)
    if not isinstance(error, MailAuthError):
        return None
    return MailboxNotWritableError(
        f"Mail.ReadWrite is missing for mails over 4 MB; grant the app that permission on this mailbox"
        f" ({error.code or 'no code'}, status 403)",
        status=403,
        code=error.code,
        request_id=error.request_id,
        client_request_id=error.client_request_id,
    )


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
