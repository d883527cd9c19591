"""The sandbox's own certificate authority, kept in a directory so that clients need to trust it only once."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography import x509

_NAMES = ("localhost", "127.0.0.1", "::1")
_RENEW_BEFORE = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class SandboxCertificate:
    """Where the authority (public, for clients) and the server's certificate with its key (private) lie."""

    ca_file: Path
    server_file: Path

    def server_context(self) -> ssl.SSLContext:
        """Make the TLS context of a server that shows this certificate."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.server_file)
        return context


def load_or_create_certificate(data_dir: Path, host: str) -> SandboxCertificate:
    """Reuse the authority and certificate in ``data_dir``, or make what is missing or not valid for ``host``."""
    data_dir.mkdir(parents=True, exist_ok=True)
    ca_file, ca_key_file, server_file = (data_dir / name for name in ("ca.pem", "ca-key.pem", "server.pem"))
    names = [*_NAMES, *([host] if host not in (*_NAMES, "0.0.0.0", "::", "") else [])]  # noqa: S104 - a comparison
    certificate = SandboxCertificate(ca_file, server_file)

    if _is_usable(ca_file) and ca_key_file.exists():
        authority = trustme.CA.from_pem(ca_file.read_bytes(), ca_key_file.read_bytes())
        if _is_usable(server_file, names):
            return certificate
    else:
        authority = trustme.CA(organization_name="rqmail sandbox")
        _write(ca_key_file, authority.private_key_pem.bytes(), private=True)
        _write(ca_file, authority.cert_pem.bytes(), private=False)
    issued = authority.issue_cert(*names)
    _write(server_file, issued.private_key_and_cert_chain_pem.bytes(), private=True)
    return certificate


def _is_usable(file: Path, names: list[str] | None = None) -> bool:
    try:
        certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
    except (OSError, ValueError, IndexError):
        return False
    if certificate.not_valid_after_utc - _RENEW_BEFORE < datetime.now(UTC):
        return False
    if not names:
        return True
    alternative = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(names) <= {str(name.value) for name in alternative}


def _write(file: Path, content: bytes, *, private: bool) -> None:
    unfinished = file.with_suffix(".new")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600 if private else 0o644)
    unfinished.write_bytes(content)
    unfinished.replace(file)
