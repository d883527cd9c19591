"""How far apart messages that were denied together come back."""

from __future__ import annotations

#: Deferred messages come back within this many milliseconds after their budget has room.
SPREAD_MS = 30_000

_FNV_OFFSET = 0x811C9DC5
_FNV_PRIME = 0x01000193


def compute_spread_ms(message_id: str) -> int:
    """Answer 0 to 29,999 ms, always the same for one id: FNV-1a (32 bit) over its UTF-8, modulo 30,000."""
    digest = _FNV_OFFSET
    for byte in message_id.encode():
        digest = ((digest ^ byte) * _FNV_PRIME) & 0xFFFFFFFF
    return digest % SPREAD_MS
