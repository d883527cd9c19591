"""The certificate of the SMTP door: by file, and read again when the file changes."""

from __future__ import annotations

import ssl
from pathlib import Path

from rqmail.errors import SettingsError
from rqmail.logs import event_log

log = event_log(__name__)


class Certificate:
    """A certificate with its key, and the TLS context that new connections get."""

    def __init__(self, certificate: Path, key: Path | None) -> None:
        self._files = (certificate, key or certificate)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        self._seen = self._stamp()
        try:
            self._load()
        except (OSError, ssl.SSLError) as error:
            raise SettingsError(
                "RQMAIL_SMTP_CERTIFICATE",
                str(certificate),
                f"a PEM file with a certificate and its key ({_said(error)})",
            ) from None

    def look(self) -> bool:
        """Read the files again if they changed; say whether they were. What cannot be read changes nothing."""
        try:
            stamp = self._stamp()
            if stamp == self._seen:
                return False
            self._load()
        except (OSError, ssl.SSLError) as error:
            log.warning("smtp.certificateUnreadable", err=_said(error))
            return False
        self._seen = stamp
        log.info("smtp.certificateChanged")
        return True

    def _load(self) -> None:
        # Tried apart first: a new certificate whose key is not there yet would take the place of the old one all the
        # same, and no handshake would succeed until it is.
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(*self._files)
        self.context.load_cert_chain(*self._files)

    def _stamp(self) -> tuple[tuple[int, int], ...]:
        return tuple((found.st_mtime_ns, found.st_size) for found in (file.stat() for file in self._files))


def _said(error: Exception) -> str:
    return getattr(error, "reason", None) or getattr(error, "strerror", None) or type(error).__name__
