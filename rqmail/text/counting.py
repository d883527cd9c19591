"""Numbers of things, in English: one message waits, two messages wait."""

from __future__ import annotations


def counted(number: int, one: str, many: str) -> str:
    """Answer the number with the words for one, or for any other number of them."""
    return f"1 {one}" if number == 1 else f"{number:,} {many}"
