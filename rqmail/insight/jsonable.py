"""How the read side's values are written as JSON, for the command line and the web alike."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any


def as_json(value: object) -> Any:
    """Turn a value of the read side into what ``json`` writes: dataclass fields in camelCase, moments in ISO 8601 UTC.

    The keys of a mapping are data (statuses, mailbox keys) and stay as they are.
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {camel(field.name): as_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if isinstance(value, Enum):
        return value.name.lower() if isinstance(value.value, int) else value.value
    if isinstance(value, list | tuple | set | frozenset):
        return [as_json(item) for item in value]
    return value


def camel(name: str) -> str:
    """Write ``rate_limit_per_minute`` as ``rateLimitPerMinute``."""
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
