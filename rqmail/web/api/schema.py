"""What the API's JSON has in common: camelCase names, nothing unknown, one shape for what is wrong."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

#: A line of text: no control characters, so that it can be stored, logged and put in a header.
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=1000)]


def _whole(value: object) -> object:
    return int(value) if isinstance(value, float) and value.is_integer() else value


#: A whole number as JSON has it (25 and 25.0 are the same there), never text, never a truth value.
Whole = Annotated[Annotated[int, Field(strict=True)], BeforeValidator(_whole)]

Limit = Annotated[Whole, Field(ge=1, le=2**31 - 1)]


def _moment(value: object) -> datetime:
    try:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else None
        if moment is not None and moment.tzinfo is not None:
            return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise ValueError("a moment with its time zone, such as 2026-03-01T09:00:00+01:00")  # what pydantic reports


#: A moment as ISO 8601 text; seconds since 1970, which pydantic would take too, are refused.
Moment = Annotated[datetime, BeforeValidator(_moment), Field(json_schema_extra={"format": "date-time"})]

PriorityName = Literal["high", "normal", "low"]

PageSize = Annotated[int, Field(ge=1, le=200)]


class ApiModel(BaseModel):
    """A JSON object; a field it does not know is an error, in what is asked as in what is answered."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        extra="forbid",
        serialize_by_alias=True,
        validate_by_name=False,
        validate_by_alias=True,
    )


class CheckOf(ApiModel):
    """What the provider said about a sender, and when; null is what could not be told."""

    checked_on: datetime
    outcome: Literal["answered", "not-known", "away", "unconfigured"]
    exists: bool | None
    may_send: bool | None
    may_read: bool | None
    may_write: bool | None
    problem: str | None


def _keep(schema: dict[str, Any]) -> None:
    """Say nothing of defaults: what is left out is kept as it is."""
    for field in schema["properties"].values():
        field.pop("default", None)


class Changes(ApiModel):
    """Changes to something that is there: what is left out is kept as it is."""

    model_config = ConfigDict(json_schema_extra=_keep)

    def given(self) -> dict[str, Any]:
        """Answer the fields that were sent, by their Python names."""
        return {name: getattr(self, name) for name in self.model_fields_set}


class Wrong(ApiModel):
    """What is wrong with a request: ``error`` for a person, ``fieldErrors`` for the program that fills in a form."""

    error: str
    field_errors: dict[str, str]


class Paging(ApiModel):
    """Which part of a list: at most ``limit`` entries, beginning after the one ``cursor`` names."""

    limit: PageSize = 50
    cursor: Annotated[Line | None, Field(description="nextCursor of the page before; left out for the first page")] = (
        None
    )


class Done(ApiModel):
    """What was asked has been done."""

    done: Literal[True] = True


class LeftBehindOf(ApiModel):
    """Messages of unknown outcome that went through what a sender had before its last changes.

    They are looked for there; those that cannot be looked up any more wait for a person.
    """

    messages: int
    not_to_be_looked_up: int


class Pause(ApiModel):
    """Why nothing is to go out, and for how long; without a duration until somebody resumes."""

    reason: Annotated[Line, Field(min_length=1, max_length=500)]
    duration_seconds: Annotated[Whole, Field(ge=1, le=315_360_000)] | None = None


def listed(value: object) -> object:
    """Answer one value as a list of one: a query or a form that names something once gives no list."""
    return [value] if isinstance(value, str) else value


def sender_named(mailbox: str | None, tenant: str | None) -> str | None:
    """Answer the sender that one of the two names, as it is stored; ``None`` with neither."""
    if mailbox is not None:
        return f"mailbox:{mailbox}"
    return None if tenant is None else f"tenant:{tenant}"
