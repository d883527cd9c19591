"""Where mail goes in development and staging instead of to its recipients: the console, a folder, one address."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

from rqmail.errors import MailTransientError
from rqmail.mailers.base import Address, Mail, Mailer, Receipt
from rqmail.mailers.mime import as_mime

#: How many of the intended recipients a redirected mail's subject names; the header names all of them.
_NAMED_IN_SUBJECT = 3
_LONGEST_HEADER = 900


@dataclass(frozen=True, slots=True)
class ConsoleMailer:
    """Writes each mail to the standard output of the process that would have sent it."""

    sender: Address

    def send(self, mail: Mail) -> Receipt:
        """Write ``mail``; bytes of files are left out."""
        _begin(mail)
        text = as_mime(replace(mail, files=()), self.sender).decode("utf-8", errors="replace")
        files = "".join(f"[{one.name}, {one.content_type}, {one.size:,} bytes]\n" for one in mail.files)
        sys.stdout.write(f"{'-' * 40}\n{text}{files}")
        sys.stdout.flush()
        return Receipt(status=202)


@dataclass(frozen=True, slots=True)
class FolderMailer:
    """Writes each mail into a folder, one ``.eml`` a message: sent again it takes the place of the first."""

    sender: Address
    folder: Path

    def send(self, mail: Mail) -> Receipt:
        """Write ``mail``; a folder that cannot be written to is tried again later."""
        _begin(mail)
        path = self.folder / f"{mail.id}.eml"
        unfinished = path.with_suffix(f".{os.getpid()}.part")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            unfinished.write_bytes(as_mime(mail, self.sender))
            unfinished.replace(path)
        except OSError as error:
            raise MailTransientError(
                f"The folder of RQMAIL_TRANSPORT cannot be written to: {error.strerror}"
            ) from error
        return Receipt(status=202)


def _begin(mail: Mail) -> None:
    """Take the permit, as a request does directly before it is written."""
    if (begin := mail.before_writing) is not None:
        begin()


@dataclass(frozen=True, slots=True)
class RedirectingMailer:
    """Sends every mail to one address, with the recipients it was meant for in the subject and in a header."""

    inner: Mailer
    address: str

    def send(self, mail: Mail) -> Receipt:
        """Send ``mail`` there, and nowhere else."""
        meant = [one.address for one in (*mail.to, *mail.cc, *mail.bcc)]
        more = len(meant) - _NAMED_IN_SUBJECT
        named = ", ".join(meant[:_NAMED_IN_SUBJECT]) + (f" and {more} more" if more > 0 else "")
        return self.inner.send(
            replace(
                mail,
                to=(Address(self.address),),
                cc=(),
                bcc=(),
                subject=f"[{named}] {mail.subject}",
                headers={**mail.headers, "x-rqmail-intended-to": ", ".join(meant)[:_LONGEST_HEADER]},
            )
        )
