"""Which member of a pool writes to a person where it is always the same one."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def always_the_same(senders: Sequence[str], person: str) -> str:
    """Answer whom a person hears from: always the same member, and few change when the pool does."""
    return max(senders, key=lambda sender: hashlib.sha256(f"{sender}\0{person}".encode()).digest())
