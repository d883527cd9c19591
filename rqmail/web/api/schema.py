"""What the API's JSON has in common: camelCase names, nothing unknown, one shape for what is wrong."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel

#: A line of text: no control characters, so that it can be stored, logged and put in a header.
Line = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=1000)]

#: A limit: a whole number as JSON writes it, never text, never a truth value.
Limit = Annotated[int, Field(strict=True, ge=1, le=2**31 - 1)]

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
