"""Non-delivery reports as Exchange puts them into the sender's Inbox, for the addresses that are to bounce."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rqmail.sandbox.answers import graph_time
from rqmail.sandbox.ledger import AcceptedMail
from rqmail.sandbox.mailbox import Mailbox
from rqmail.sandbox.state import SandboxState

#: The property that holds an item's message class, and the class of a report.
_CLASS = {"id": "String 0x001A", "value": "REPORT.IPM.Note.NDR"}


def report_bounces(state: SandboxState, mailbox: Mailbox, mail: AcceptedMail, message: Mapping[str, Any]) -> None:
    """Put a report into the sender's Inbox for those recipients of an accepted mail that are to bounce."""
    if not state.bounces:
        return
    failed = [address for address in (*mail.to, *mail.cc, *mail.bcc) if address.strip().lower() in state.bounces]
    if not failed:
        return
    now = graph_time(state.now())
    item = mailbox.store(
        "inbox",
        {
            "subject": f"Undeliverable: {mail.subject}",
            "from": {"emailAddress": {"name": "Microsoft Outlook", "address": f"postmaster@{mailbox.address}"}},
            "toRecipients": [{"emailAddress": {"address": address}} for address in failed],
            "receivedDateTime": now,
            "createdDateTime": now,
            "sentDateTime": now,
            "singleValueExtendedProperties": [_CLASS],
        },
    )
    item.mime = _as_mime(state, mailbox, mail, message, failed)


def _as_mime(
    state: SandboxState, mailbox: Mailbox, mail: AcceptedMail, message: Mapping[str, Any], failed: list[str]
) -> bytes:
    boundary = f"report-{mail.seq}"
    groups = ["Reporting-MTA: dns;sandbox.rqmail.invalid"]
    for address in failed:
        code = state.bounces[address.strip().lower()]
        action = "delayed" if code.startswith("4") else "failed"
        groups += [
            "",
            f"Final-Recipient: rfc822;{address}",
            f"Action: {action}",
            f"Status: {code}",
            f"Diagnostic-Code: smtp;550 {code} {address} cannot be reached",
        ]
    headers = {header["name"]: header.get("value", "") for header in message.get("internetMessageHeaders", [])}
    headers |= {"Message-ID": mail.internetMessageId, "Subject": mail.subject}
    lines = [
        f"From: postmaster@{mailbox.address.rpartition('@')[2]}",
        f"To: {mailbox.address}",
        f"Subject: Undeliverable: {mail.subject}",
        "Auto-Submitted: auto-replied",
        "MIME-Version: 1.0",
        f'Content-Type: multipart/report; report-type=delivery-status; boundary="{boundary}"',
        "",
        f"--{boundary}",
        "Content-Type: text/plain; charset=utf-8",
        "",
        "Your message couldn't be delivered.",
        f"--{boundary}",
        "Content-Type: message/delivery-status",
        "",
        *groups,
        "",
        f"--{boundary}",
        "Content-Type: text/rfc822-headers; charset=utf-8",
        "",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        f"--{boundary}--",
        "",
    ]
    return "\r\n".join(lines).encode()
