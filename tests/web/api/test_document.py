"""The OpenAPI document holds what it says, whatever is asked."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

import pytest
import schemathesis
from flask import Flask
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import APIOperation, Case, GenerationMode
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi.checks import positive_data_acceptance

from rqmail.bootstrap import Application
from rqmail.models.message import MessageStatus
from support.messages import message_in, new_message, submitted
from web.asking import ADMIN_TOKEN

EXAMPLES = 5

#: What the ids of things are called in paths.
ID_NAMES = ("key", "name", "message_id", "import_id")


def operations(web: Flask) -> list[APIOperation]:
    schema = schemathesis.openapi.from_wsgi("/openapi.json", web)
    # /readyz says 503 in a well-formed way when nothing runs; it has tests of its own.
    return [found.ok() for found in schema.exclude(path="/readyz").get_all_operations()]


@pytest.fixture
def things(application: Application) -> dict[str, str]:
    """One thing of each kind, by the name its id has in a path."""
    application.mailboxes.add("news", "news@example.org")
    application.tenants.add("acme", "sendgrid", sendgrid_from="acme@example.org")
    application.access.create("app", ["send"], by="admin")
    message_in(MessageStatus.ERROR)
    imported = application.imports.take(io.BytesIO(b"to,subject,text\njan,s,t\n"), "mailbox:news").import_id
    assert imported is not None
    return {"key": "news", "name": "app", "message_id": submitted(new_message())[0], "import_id": imported}


class Asking(NamedTuple):
    """What is asked of one operation: in which manner, and whether of things that are there."""

    operation: APIOperation
    mode: GenerationMode
    known: bool
    cases: list[Case]


@pytest.fixture(scope="module")
def made_up() -> list[Asking]:
    """Every request that is made up, kept for the second database: making them up costs more than asking."""
    return []


def make_up(web: Flask) -> Iterator[Asking]:
    for operation, mode, known in product(operations(web), GenerationMode, (True, False)):
        if mode is GenerationMode.NEGATIVE and operation.path == "/healthz":
            continue  # there is nothing in it that could be wrong
        if known and "{" not in operation.path:
            continue
        yield Asking(operation, mode, known, cases_of(operation, mode, known=known))


def cases_of(operation: APIOperation, mode: GenerationMode, *, known: bool) -> list[Case]:
    cases: list[Case] = []
    path = {name: "put in later" for name in ID_NAMES if f"{{{name}}}" in operation.path} if known else None

    @seed(20260310)
    @settings(
        max_examples=EXAMPLES,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(mode, path_parameters=path))
    def collect(case: Case) -> None:
        cases.append(case)

    collect()
    return cases


# The client that asks keeps a large form in a file and leaves it open.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning")
def test_no_request_is_answered_with_an_error_of_ours_or_with_anything_undocumented(
    web: Flask, things: dict[str, str], held: list[float], made_up: list[Asking]
) -> None:
    if not made_up:
        made_up.extend(make_up(web))
    failed = []
    for operation, mode, known, cases in made_up:
        for case in cases:
            if known:
                there = things | ({"key": "acme"} if "tenants" in operation.path else {})
                case.path_parameters = {name: there.get(name, one) for name, one in case.path_parameters.items()}
            try:
                case.call_and_validate(
                    headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
                    # What an address is, or that two fields exclude each other, JSON Schema cannot say.
                    excluded_checks=[positive_data_acceptance],
                    app=web,
                )
            except (Exception, FailureGroup) as error:
                each = "\n".join(map(str, getattr(error, "exceptions", [])))
                failed.append(f"{operation.label} ({mode.value})\n{error}\n{each}")
    assert not failed, "\n\n".join(failed)
    assert len(made_up) > 100
    assert all(each.cases for each in made_up)
