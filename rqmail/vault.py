"""Encrypts secrets and tokens before they are stored."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from contextlib import suppress
from functools import cached_property
from typing import Literal

from cryptography.fernet import Fernet, InvalidToken, MultiFernet
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rqmail.errors import SettingsError
from rqmail.text.scrubbing import keep_passing_secret, keep_secret

_VARIABLE = "RQMAIL_SECRET_KEY"


class SecretBox:
    """Encrypts and decrypts short texts with a key derived from ``RQMAIL_SECRET_KEY``.

    What was encrypted with one of the ``former`` keys is still read. Without a key it cannot be used: each call raises
    :class:`~rqmail.errors.SettingsError`.
    """

    def __init__(self, secret_key: str | None, former: Sequence[str] = ()) -> None:
        self._secret_key = secret_key
        self._former = tuple(former)

    def __repr__(self) -> str:
        return f"SecretBox({'***' if self._secret_key else 'no key'})"

    @property
    def usable(self) -> bool:
        """Whether there is a key to encrypt with."""
        return bool(self._secret_key)

    def encrypt(self, text: str) -> str:
        """Encrypt ``text`` as printable ASCII; the same text gives another result each time."""
        return self._fernet.encrypt(text.encode()).decode("ascii")

    def decrypt(self, token: str, *, passing: bool = False) -> str:
        """Decrypt what :meth:`encrypt` made; raises ``SettingsError`` if it was made with another key.

        ``passing`` says that the text lives for hours only, as an access token does.
        """
        try:
            text = self._fernet.decrypt(token.encode()).decode()
        except InvalidToken:
            text = self._decrypt_former(token)
        if passing:
            keep_passing_secret(text)
        else:
            keep_secret(text)
        return text

    def key_of(self, token: str) -> Literal["present", "former"] | None:
        """Answer which key ``token`` was encrypted with; ``None`` where no key opens it."""
        for number, fernet in enumerate((self._fernet, *self._formers)):
            with suppress(InvalidToken):
                fernet.decrypt(token.encode())
                return "former" if number else "present"
        return None

    def renewed(self, token: str) -> str:
        """Encrypt with the present key what any of the keys encrypted; the text is given to nobody."""
        return MultiFernet([self._fernet, *self._formers]).rotate(token.encode()).decode("ascii")

    def _decrypt_former(self, token: str) -> str:
        try:
            return MultiFernet(self._formers).decrypt(token.encode()).decode()
        except InvalidToken:
            raise SettingsError(
                _VARIABLE, "***", "the key the stored secrets were encrypted with; it was changed since"
            ) from None

    @cached_property
    def _formers(self) -> tuple[Fernet, ...]:
        """The former keys, and the present one as it was while its line end, mark or quotes counted as part of it."""
        key = self._secret_key or ""
        former = [*self._former]
        former += [key + end for end in ("\n", "\r\n", " ")] + [f"\ufeff{key}", f'"{key}"', f"'{key}'"]
        return tuple(_fernet_of(one) for one in former)

    @cached_property
    def _fernet(self) -> Fernet:
        if not self._secret_key:
            raise SettingsError(_VARIABLE, None, "at least 16 characters; stored secrets are encrypted with it")
        return _fernet_of(self._secret_key)


def _fernet_of(secret_key: str) -> Fernet:
    # The info text keeps this key apart from any other key that may be derived from the same secret one day.
    derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"rqmail stored secrets").derive(secret_key.encode())
    return Fernet(base64.urlsafe_b64encode(derived))
