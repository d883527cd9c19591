"""The OpenAPI document holds what it says, whatever is asked."""

from __future__ import annotations

import io
from itertools import product

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


# The client that asks keeps a large form in a file and leaves it open.
@pytest.mark.filterwarnings("ignore:Exception ignored in. <_io.FileIO:pytest.PytestUnraisableExceptionWarning")
def test_no_request_is_answered_with_an_error_of_ours_or_with_anything_undocumented(
    web: Flask, things: dict[str, str], held: list[float]
) -> None:
    failed = []
    for operation, mode, known in product(operations(web), GenerationMode, (True, False)):
        if mode is GenerationMode.NEGATIVE and operation.path == "/healthz":
            continue  # there is nothing in it that could be wrong
        if known and "{" not in operation.path:
            continue
        path = {name: value for name, value in things.items() if f"{{{name}}}" in operation.path} if known else None
        if path and "tenants" in operation.path:
            path["key"] = "acme"

        @seed(20260310)
        @settings(
            max_examples=EXAMPLES,
            database=None,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(mode, path_parameters=path))
        def ask(case: Case) -> None:
            case.call_and_validate(
                headers={"Authorization": f"Bearer {ADMIN_TOKEN}"},
                # What an address is, or that two fields exclude each other, JSON Schema cannot say.
                excluded_checks=[positive_data_acceptance],
            )

        try:
            ask()
        except (Exception, FailureGroup) as error:
            failed.append(
                f"{operation.label} ({mode.value})\n{error}\n" + "\n".join(map(str, getattr(error, "exceptions", [])))
            )
    assert not failed, "\n\n".join(failed)
