"""The certificate our app proves itself with: found in a PEM or PFX file as openssl, Windows and people write them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.asymmetric.types import CertificatePublicKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
from cryptography.x509 import Certificate, load_pem_x509_certificate

from rqmail.errors import MailAuthError
from rqmail.text.decoding import decoded
from rqmail.text.scrubbing import keep_secret

_PASSWORD = "RQMAIL_GRAPH_CERTIFICATE_PASSWORD"  # noqa: S105 - a name, not a secret

#: How certificates are headed.
_CERTIFICATES = frozenset({"CERTIFICATE", "X509 CERTIFICATE"})

_BLOCK = re.compile(r"-----BEGIN (?P<label>[A-Z0-9 ]+)-----.*?-----END (?P=label)-----", re.DOTALL)


@dataclass(frozen=True, slots=True)
class AppCertificate:
    """A private key and the certificate that belongs to it, both as PEM, with the day on which it ends."""

    private_key: str = field(repr=False)
    certificate: str
    valid_until: datetime

    def __post_init__(self) -> None:
        keep_secret(self.private_key)


def read_certificate(file: Path, now: datetime, password: str | None = None) -> AppCertificate:
    """Find the private key and its certificate in ``file``, PEM or PFX, whatever else is in it.

    ``password`` opens a PFX file, or an encrypted key in a PEM file.

    Text between the blocks (openssl's "Bag Attributes"), a byte order mark, keys and certificates of others are passed
    over; of several certificates of the key the one valid longest is taken, of those that are valid now if any is.
    Raises ``MailAuthError`` with what is wrong.
    """
    try:
        data = file.read_bytes()
    except OSError as error:
        raise _unusable(f"cannot be read ({type(error).__name__})") from None
    # A PFX file is one ASN.1 sequence; no text begins with that byte and a length in the long form.
    text = _pem_of_pfx(data, password) if data[:1] == b"\x30" and data[1:2] >= b"\x80" else decoded(data)
    blocks = [(match["label"], _in_lines(match[0])) for match in _BLOCK.finditer(text)]
    if not blocks:
        raise _unusable("is neither PEM (text with BEGIN and END lines) nor PFX")
    keys = _private_keys([pem for label, pem in blocks if label.endswith("PRIVATE KEY")], password)
    key_pem, certificate, certificate_pem = _belonging(
        keys, [pem for label, pem in blocks if label in _CERTIFICATES], now
    )
    if certificate.not_valid_before_utc > now:
        raise _unusable(
            f"holds a certificate that is not valid before {certificate.not_valid_before_utc:%Y-%m-%d %H:%M} UTC"
        )
    if certificate.not_valid_after_utc < now:
        raise _unusable(f"holds a certificate that expired on {certificate.not_valid_after_utc:%Y-%m-%d}")
    return AppCertificate(key_pem, certificate_pem, certificate.not_valid_after_utc)


def _pem_of_pfx(data: bytes, password: str | None) -> str:
    """Answer the key and the certificates of a PFX file as PEM."""
    try:
        pfx = load_pkcs12(data, None if password is None else password.encode())
    except ValueError as error:
        if "password" not in str(error).lower() and "mac" not in str(error).lower():
            raise _unusable("cannot be read as PFX: it is damaged or cut off") from None
        given = "does not open it" if password else "is not set"
        raise _unusable(f"is a PFX file with a password, and {_PASSWORD} {given}") from None
    except UnsupportedAlgorithm:
        raise _unusable("is a PFX file whose encryption is not known; export it anew with AES") from None
    pems = [] if pfx.key is None else [pfx.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())]
    certificates = [one.certificate for one in (pfx.cert, *pfx.additional_certs) if one is not None]
    return b"".join([*pems, *(one.public_bytes(Encoding.PEM) for one in certificates)]).decode("ascii")


def _in_lines(pem: str) -> str:
    """Answer a block in lines without blanks around them, also where a line end is written as a backslash and an n."""
    return "\n".join(line.strip() for line in pem.replace("\\r", "").replace("\\n", "\n").splitlines())


def _private_keys(blocks: list[str], password: str | None) -> list[tuple[bytes, str]]:
    """Answer the RSA keys, each as its public half and its PEM."""
    if not blocks:
        raise _unusable("holds no private key; put the key and its certificate into one file")
    problems, keys = [], []
    for pem in blocks:
        encrypted = "ENCRYPTED" in pem
        if encrypted and not password:
            problems.append(f"holds an encrypted private key, and {_PASSWORD} is not set")
            continue
        try:
            secret = password.encode() if encrypted and password else None
            key = load_pem_private_key(pem.encode("ascii", errors="replace"), password=secret)
        except ValueError as error:
            if not encrypted or "password" not in str(error).lower():
                problems.append("holds a private key that cannot be read: it is damaged or cut off")
            else:
                problems.append(f"holds an encrypted private key that {_PASSWORD} does not open")
            continue
        except (TypeError, UnsupportedAlgorithm):
            problems.append("holds a private key that cannot be read: it is damaged or cut off")
            continue
        if isinstance(key, RSAPrivateKey):
            keys.append((_public_half(key.public_key()), _opened(key) if encrypted else pem))
            continue
        kind = type(key).__name__.removeprefix("_").removesuffix("PrivateKey")
        problems.append(
            f"holds a private key of the kind {kind.replace('EllipticCurve', 'EC')}; Microsoft Entra takes RSA"
        )
    if not keys:
        raise _unusable(problems[0])
    return keys


def _opened(key: RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode("ascii").strip()


def _public_half(key: CertificatePublicKeyTypes) -> bytes:
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _belonging(keys: list[tuple[bytes, str]], blocks: list[str], now: datetime) -> tuple[str, Certificate, str]:
    """Answer the key that has a certificate, and that certificate: one valid now if there is one, valid longest."""
    if not blocks:
        raise _unusable("holds no certificate; put the key and its certificate into one file")
    found: list[tuple[str, Certificate, str]] = []
    readable = 0
    for pem in blocks:
        try:
            certificate = load_pem_x509_certificate(pem.encode("ascii", errors="replace"))
            its_key = _public_half(certificate.public_key())
        except (ValueError, TypeError, UnsupportedAlgorithm):
            continue
        readable += 1
        found += [(key, certificate, pem) for public, key in keys if public == its_key]
    if not readable:
        raise _unusable("holds a certificate that cannot be read: it is damaged or cut off")
    if not found:
        which = "a private key" if len(keys) == 1 else f"{len(keys)} private keys"
        none = "its certificate does not belong" if readable == 1 else f"none of its {readable} certificates belongs"
        raise _unusable(f"holds {which} to which {none}")
    return max(found, key=lambda one: (one[1].not_valid_before_utc <= now, one[1].not_valid_after_utc))


def _unusable(why: str) -> MailAuthError:
    return MailAuthError(f"RQMAIL_GRAPH_CERTIFICATE {why}")
