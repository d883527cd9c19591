"""Non-delivery reports in a mailbox's Inbox: found by their message class and read as they came; needs Mail.Read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, urlsplit

from rqmail.clock import Clock, utc_now
from rqmail.errors import MailboxNotReadableError, MailTransientError
from rqmail.mailers.base import wire_address
from rqmail.mailers.graph.errors import error_for_answer
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.http.transport import Answer

#: The message class of a report that mail was not delivered.
REPORT_CLASS = "REPORT.IPM.Note.NDR"
_CLASS_PROPERTY = "String 0x001A"

_A_PAGE = 50
_ANSWER_LIMIT = 1024 * 1024


@dataclass(frozen=True, slots=True)
class ReportItem:
    """One report in the Inbox, and when it came there."""

    id: str
    received_on: datetime


class GraphInbox:
    """Lists the reports in one mailbox's Inbox, and reads them."""

    def __init__(self, http: GraphHttp, base_url: str, mailbox_address: str, *, clock: Clock = utc_now) -> None:
        self._http = http
        self._user_url = f"{base_url}/users/{quote(wire_address(mailbox_address.strip()), safe='@')}"
        self._clock = clock

    def reports(self, since: datetime, most: int) -> list[ReportItem]:
        """List the reports that came at ``since`` or later, oldest first, at least ``most`` where there are so many.

        Raises ``MailboxNotReadableError`` where we may not look, and another ``MailError`` to be asked again later.
        """
        moment = since.strftime("%Y-%m-%dT%H:%M:%SZ")
        wanted = f"ep/id eq '{_CLASS_PROPERTY}' and ep/value eq '{REPORT_CLASS}'"
        of_class = f"singleValueExtendedProperties/any(ep: {wanted})"
        url: str | None = (
            f"{self._user_url}/mailFolders/inbox/messages"
            f"?$filter={quote(f'receivedDateTime ge {moment} and {of_class}', safe='')}"
            f"&$orderby=receivedDateTime&$select=id,receivedDateTime&$top={_A_PAGE}"
        )
        found: list[ReportItem] = []
        while url is not None and len(found) < most:
            answer = self._ask(url, _ANSWER_LIMIT)
            try:
                page = json.loads(answer.body)
                found += (_item(row) for row in page["value"])
                url = page.get("@odata.nextLink")
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
                raise MailTransientError("Microsoft Graph's list of reports could not be read", status=200) from None
            if url is not None and urlsplit(url)[:2] != urlsplit(self._user_url)[:2]:
                raise MailTransientError("Microsoft Graph's list of reports goes on elsewhere", status=200)
        return sorted(found, key=lambda one: one.received_on)

    def content(self, item: ReportItem, limit: int) -> bytes:
        """Read a report as it came, at most ``limit`` bytes of it; one that is gone meanwhile is empty."""
        url = f"{self._user_url}/messages/{quote(item.id, safe='')}/$value"
        try:
            return self._ask(url, limit, "message/rfc822").body
        except MailboxNotReadableError:
            raise
        except Exception as error:
            if getattr(error, "status", None) == 404:
                return b""
            raise

    def _ask(self, url: str, limit: int, accept: str = "application/json") -> Answer:
        answer = self._http.request("GET", url, {"Accept": accept}, limit=limit)
        if answer.status == 200:
            return answer
        error = error_for_answer(answer.status, answer.headers, answer.body, self._clock())
        if answer.status == 403:
            raise MailboxNotReadableError(
                "Mail.Read is missing, so non-delivery reports cannot be read; grant the app that permission on this"
                f" mailbox ({error.code or 'no code'}, status 403)",
                status=403,
                code=error.code,
                request_id=error.request_id,
                client_request_id=error.client_request_id,
            )
        raise error


def _item(row: dict[str, str]) -> ReportItem:
    received_on = datetime.fromisoformat(row["receivedDateTime"])
    if received_on.tzinfo is None:
        raise ValueError(row["receivedDateTime"])
    return ReportItem(str(row["id"]), received_on)
