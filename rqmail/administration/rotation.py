"""The change of RQMAIL_SECRET_KEY: what is stored is encrypted with the present key, and what is not yet is told."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from rqmail.errors import told
from rqmail.models.encrypted import encrypted_texts
from rqmail.token_store import RedisTokenStore
from rqmail.vault import SecretBox

#: Called with how many are done and how many there are.
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Held:
    """How many texts of one kind are encrypted with which key; ``unreadable`` ones with none that is set."""

    present: int = 0
    former: int = 0
    unreadable: int = 0


@dataclass(frozen=True, slots=True)
class VaultReport:
    """What is stored encrypted: secrets in the tables, access tokens in Redis (``None`` while it is away).

    ``unreadable`` names the secrets that no key opens; ``problem`` says why the tokens are not known.
    """

    secrets: Held
    tokens: Held | None
    unreadable: tuple[str, ...] = ()
    problem: str | None = None

    @property
    def former(self) -> int:
        """How many still need a former key."""
        return self.secrets.former + (self.tokens.former if self.tokens else 0)


class KeyRotation:
    """Encrypts with the present key what a former one encrypted; each text by itself, so it can be begun again."""

    def __init__(self, box: SecretBox, tokens: RedisTokenStore) -> None:
        self._box = box
        self._tokens = tokens

    def status(self) -> VaultReport:
        """Tell with which keys everything stored is encrypted."""
        return self._pass(renew=False, progress=None)

    def rotate(self, progress: Progress | None = None) -> VaultReport:
        """Encrypt with the present key what needs a former one; the answer counts as ``former`` what was renewed.

        What is encrypted with the present key already is left alone, and so is what no key opens.
        """
        return self._pass(renew=True, progress=progress)

    def _pass(self, *, renew: bool, progress: Progress | None) -> VaultReport:
        if not self._box.usable:
            self._box.encrypt("")  # raises what names the setting
        texts = encrypted_texts()
        secrets, unreadable = Held(), []
        for done, one in enumerate(texts, 1):
            key = self._box.key_of(one.text)
            if key is None:
                unreadable.append(one.name)
            elif key == "former" and renew:
                one.replace(self._box.renewed(one.text))
            secrets = _with(secrets, key)
            if progress is not None:
                progress(done, len(texts))
        try:
            tokens = _count(self._tokens.renewed() if renew else self._tokens.keys_used())
        except Exception as error:
            problem = told(error)
            if problem is None:
                raise
            return VaultReport(secrets, None, tuple(unreadable), problem)
        return VaultReport(secrets, tokens, tuple(unreadable))


def _count(keys: Iterable[Literal["present", "former"] | None]) -> Held:
    held = Held()
    for key in keys:
        held = _with(held, key)
    return held


def _with(held: Held, key: Literal["present", "former"] | None) -> Held:
    if key is None:
        return replace(held, unreadable=held.unreadable + 1)
    if key == "former":
        return replace(held, former=held.former + 1)
    return replace(held, present=held.present + 1)
