"""One page of a list, and where the next begins."""

from __future__ import annotations

from typing import Any


def page(name: str, found: list[dict[str, Any]], limit: int) -> dict[str, Any]:
    """Cut ``found``, which was asked for with one more than ``limit``, and name the last entry if there are more."""
    shown = found[:limit]
    return {name: shown, "nextCursor": shown[-1]["id"] if len(found) > limit else None}
