"""Django's mail goes out through rqmail: ``EMAIL_BACKEND = "rqmail.contrib.django.EmailBackend"``."""

from __future__ import annotations

import mimetypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from email.encoders import encode_base64
from email.mime.base import MIMEBase
from email.utils import parseaddr
from functools import partial
from io import BytesIO
from typing import Any

from django.conf import settings
from django.core.mail.backends.base import BaseEmailBackend
from django.db import transaction

from rqmail.bootstrap import application
from rqmail.errors import InvalidInputError, told
from rqmail.intake.addresses import parse_addresses
from rqmail.intake.draft import Draft
from rqmail.intake.relayed import relayed
from rqmail.intake.senders import senders_at
from rqmail.logs import event_log
from rqmail.models.message import NewMessage

log = event_log(__name__)

_UNKNOWN_TYPE = "application/octet-stream"


class EmailBackend(BaseEmailBackend):  # type: ignore[misc]
    """Stores what Django sends as messages that wait; any number of threads may share one.

    A mail leaves from the mailbox or tenant whose address ``from_email`` is, else from ``sender`` (``mailbox:KEY``,
    ``tenant:KEY`` or ``default``; the setting ``RQMAIL_SENDER``). Within a transaction of the default database it is
    checked at once and stored on commit, unless ``on_commit`` (``RQMAIL_ON_COMMIT``) is false. ``priority`` is
    ``high``, ``normal`` or ``low``.
    """

    def __init__(
        self,
        fail_silently: bool = False,
        *,
        sender: str | None = None,
        on_commit: bool | None = None,
        priority: str = "normal",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.fail_silently = fail_silently
        self._sender = getattr(settings, "RQMAIL_SENDER", None) if sender is None else sender
        self._on_commit = getattr(settings, "RQMAIL_ON_COMMIT", True) if on_commit is None else on_commit
        self._priority = priority

    def send_messages(self, email_messages: Sequence[Any]) -> int:
        """Take these mails in and answer how many; without ``fail_silently`` all of them, or none if one is wrong."""
        if not email_messages:
            return 0
        ready: list[NewMessage] = []
        with self._silenced():
            checks = application(embedded=True).intake.checks()
            for one in email_messages:
                if one.recipients():
                    with self._silenced():
                        ready.append(checks.check(self._draft(one)).message)
        if not ready:
            return 0
        if self._on_commit and transaction.get_connection().in_atomic_block:
            transaction.on_commit(partial(self._store, ready))
            return len(ready)
        return self._store(ready)

    def _store(self, ready: Sequence[NewMessage]) -> int:
        stored: list[NewMessage] = []
        with self._silenced():
            application(embedded=True).intake.by("django").store(ready)
            stored += ready
        return len(stored)

    @contextmanager
    def _silenced(self) -> Iterator[None]:
        """Pass over an error only where it was to be expected and the caller wants to hear of none."""
        try:
            yield
        except Exception as error:
            if not self.fail_silently or told(error) is None:
                raise
            log.warning("django.notTaken", err=type(error).__name__)

    def _draft(self, mail: Any) -> Draft:
        """Read the mail as Django would have written it for SMTP, its files to the byte as they were attached."""
        sender, address = self._origin(mail)
        recipients = [found.address for line in mail.recipients() for found in parse_addresses(str(line), "to")]
        given = mail.attachments
        mail.attachments = [_exact(one, mail.encoding or settings.DEFAULT_CHARSET) for one in given]
        try:
            written = mail.message().as_bytes()
        finally:
            mail.attachments = given
        with relayed(BytesIO(written), sender, recipients, address=address) as found:
            # The mail is closed long before a transaction is committed: what its files hold goes with the draft.
            files = [replace(one, content=one.content.read()) for one in found.draft.attachments]  # type: ignore[union-attr]
            return replace(found.draft, attachments=files, priority=self._priority)

    def _origin(self, mail: Any) -> tuple[str, str | None]:
        """Answer who sends the mail, and that one's address, where a From that is another one is to stay."""
        _, address = parseaddr(str(mail.from_email))  # Django's own defaults, at localhost, are no addresses to us
        if address and (found := senders_at(address)):
            return found[0], address
        if not self._sender:
            allowed = "the address of a mailbox of rqmail, or the setting RQMAIL_SENDER = 'mailbox:KEY' for all others"
            raise InvalidInputError("from_email", str(mail.from_email), allowed)
        named = any(name.lower() == "from" for name in mail.extra_headers)
        return str(self._sender), "" if named else None


def _exact(attached: Any, encoding: Any) -> Any:
    """Answer a file as a part whose bytes nothing on the way changes: Django writes text with line ends of its own."""
    if not isinstance(attached, tuple):
        return attached
    name, content, content_type = (*attached, None)[:3]
    if not isinstance(content, str | bytes) or str(content_type).startswith("message/"):
        return attached
    kind = content_type or (mimetypes.guess_type(name)[0] if name else None) or _UNKNOWN_TYPE
    part = MIMEBase(*kind.partition(";")[0].split("/", 1))
    part.set_payload(content.encode(str(encoding)) if isinstance(content, str) else content)
    encode_base64(part)
    if name:
        part.add_header("Content-Disposition", "attachment", filename=("utf-8", "", name))
    else:
        part.add_header("Content-Disposition", "attachment")
    return part
