"""A mail on its way out of a mailbox: what Exchange refuses, and what becomes of what it takes."""

from __future__ import annotations

import base64
import hashlib
import re
from datetime import datetime, timedelta
from typing import Any

from rqmail.sandbox.answers import CallIds, GraphRefusal, graph_time
from rqmail.sandbox.ledger import AcceptedMail
from rqmail.sandbox.mailbox import Mailbox
from rqmail.sandbox.state import SandboxState

_ADDRESS = re.compile(r"[^\s@<>()\[\],;:\\\"]+@[^\s@<>()\[\],;:\\\"]+\.[^\s@<>()\[\],;:\\\".]+")
_RECIPIENTS = ("toRecipients", "ccRecipients", "bccRecipients")
_RQMAIL_HEADER = "x-rqmail-id"
_RQMAIL_PROPERTIES = (" name rqmail-id", " name x-rqmail-id")


#: Custom headers in one message given as JSON.
_MOST_HEADERS = 5


def check_headers(message: dict[str, Any]) -> None:
    """Refuse custom headers that do not begin with ``x-``."""
    for header in message.get("internetMessageHeaders", []):
        if not str(header.get("name", "")).lower().startswith("x-"):
            raise GraphRefusal(
                400,
                "InvalidInternetMessageHeader",
                f"The internet message header name '{header.get('name', '')}' should start with 'x-' or 'X-'.",
            )


def check_header_count(message: dict[str, Any]) -> None:
    """Refuse more custom headers than JSON takes in one message; a mail in MIME form may have any number."""
    if len(message.get("internetMessageHeaders", [])) > _MOST_HEADERS:
        raise GraphRefusal(
            400,
            "InvalidInternetMessageHeaderCollection",
            f"Maximum number of headers in one message should be less than or equal to {_MOST_HEADERS}.",
        )


def check_names(message: dict[str, Any], state: SandboxState) -> None:
    """Refuse properties by a name where the mailbox has no more names; the headers it knows stay."""
    properties = message.get("singleValueExtendedProperties", [])
    if state.limits.refuse_named_properties and any(" name " in str(one.get("id", "")).lower() for one in properties):
        raise GraphRefusal(507, "ErrorQuotaExceeded", "Cannot get ID from name.")


def check_outgoing(message: dict[str, Any], mailbox: Mailbox) -> None:
    """Refuse a mail without recipients, with an address that is none, or from another mailbox's address."""
    check_headers(message)
    addresses = [address for name in _RECIPIENTS for address in addresses_of(message, name)]
    if not addresses:
        raise GraphRefusal(
            400,
            "ErrorInvalidRecipients",
            "At least one recipient isn't valid., A message can't be sent because it contains no recipients.",
        )
    for address in addresses:
        if not _ADDRESS.fullmatch(address):
            raise GraphRefusal(
                400,
                "ErrorInvalidRecipients",
                f"At least one recipient isn't valid., Recipient '{address}' isn't resolved. All recipients must be "
                "resolved before a message can be submitted.",
            )
    for name in ("from", "sender"):
        sender = _address(message.get(name, {})).lower()
        if sender and sender != mailbox.address:
            raise GraphRefusal(
                403,
                "ErrorSendAsDenied",
                "The user account which was used to submit this request does not have the right to send mail on "
                "behalf of the specified sending account.",
            )


def accept(state: SandboxState, mailbox: Mailbox, message: dict[str, Any], via: str, ids: CallIds) -> AcceptedMail:
    """Take ``message`` out of ``mailbox``: count it against the limits and write it down."""
    moment = state.now()
    now = moment.timestamp()
    limits = state.limits
    to, cc, bcc = (addresses_of(message, name) for name in _RECIPIENTS)
    count = len(to) + len(cc) + len(bcc)
    over_day = mailbox.recipients.at(now) + count > limits.recipients_per_day
    if over_day and limits.refuse_over_day:
        raise GraphRefusal(
            429,
            "ErrorExceededMessageLimit",
            "The message can't be submitted because the sender has exceeded the recipient rate limit.",
            {"Retry-After": str(limits.retry_after_seconds)},
        )
    mailbox.recipients.add(now, count)
    mailbox.accepted += 1
    seq = len(state.ledger.mails) + 1
    message.setdefault("internetMessageId", f"<{ids.request_id}@sandbox.rqmail.invalid>")
    body = message.get("body", {})
    mail = AcceptedMail(
        seq=seq,
        time=moment.isoformat(timespec="milliseconds"),
        mailbox=mailbox.address,
        rqmailId=_rqmail_id(message),
        subject=message.get("subject", ""),
        to=to,
        cc=cc,
        bcc=bcc,
        bodyType=body.get("contentType", "text"),
        body=body.get("content", ""),
        headers={header["name"]: header.get("value", "") for header in message.get("internetMessageHeaders", [])},
        attachments=[_shown(attachment) for attachment in message.get("attachments", [])],
        via=via,
        requestId=ids.request_id,
        clientRequestId=ids.client_request_id,
        internetMessageId=message["internetMessageId"],
        nonDelivery=_non_delivery(over_day=over_day, too_many=count > limits.recipients_per_message),
        carriedOver=mailbox.sends.add(now, 1) > limits.messages_per_minute,
    )
    state.ledger.add(mail)
    return mail


def sent_copy(message: dict[str, Any], mailbox: Mailbox, moment: datetime) -> dict[str, Any]:
    """Answer the message as it will lie in Sent Items; of attachments only what describes them is kept."""
    owner = {"emailAddress": {"address": mailbox.address, "name": mailbox.address}}
    sent = graph_time(moment)
    return {
        **message,
        "from": message.get("from", owner),
        "sender": owner,
        "isDraft": False,
        "isRead": True,
        "createdDateTime": message.get("createdDateTime", sent),
        "lastModifiedDateTime": sent,
        "sentDateTime": sent,
        "receivedDateTime": sent,
        "attachments": [_shown(attachment) for attachment in message.get("attachments", [])],
    }


def visible_from(state: SandboxState, moment: datetime) -> float:
    """Answer when a copy of what was sent at ``moment`` can be seen in Sent Items."""
    return (moment + timedelta(seconds=state.sent_items_delay_seconds)).timestamp()


def addresses_of(message: dict[str, Any], name: str) -> list[str]:
    """Answer the addresses of one recipient list, as they were written."""
    return [_address(recipient) for recipient in message.get(name, [])]


def _address(recipient: dict[str, Any]) -> str:
    return str(recipient.get("emailAddress", {}).get("address", ""))


def _non_delivery(*, over_day: bool, too_many: bool) -> str | None:
    if too_many:
        return "5.5.3 too many recipients in one message"
    return "5.2.0 dropped for limit: recipients in 24 hours" if over_day else None


def _rqmail_id(message: dict[str, Any]) -> str | None:
    for header in message.get("internetMessageHeaders", []):
        if header["name"].lower() == _RQMAIL_HEADER:
            return str(header.get("value", ""))
    for entry in message.get("singleValueExtendedProperties", []):
        if entry["id"].lower().endswith(_RQMAIL_PROPERTIES):
            return str(entry.get("value", ""))
    return None


def _shown(attachment: dict[str, Any]) -> dict[str, Any]:
    shown = {name: value for name, value in attachment.items() if name != "contentBytes"}
    if "contentBytes" in attachment:
        content = base64.b64decode(attachment["contentBytes"])
        shown |= {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    return shown
