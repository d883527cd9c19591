"""The suppression list over the API, and what is said of it when mail is handed in."""

from __future__ import annotations

import io

import pytest
from flask.testing import FlaskClient

from rqmail.bootstrap import Application


@pytest.fixture
def news(application: Application) -> str:
    return application.mailboxes.add("news", "news@example.org").key


MAIL = {"subject": "Hello", "text": "Hi."}


def suppress(client: FlaskClient, address: str, **fields: str) -> None:
    assert client.post("/admin/suppressions", json={"address": address, **fields}).status_code == 201


def test_an_address_is_put_on_the_list_found_and_taken_off_and_all_of_it_is_audited(
    client: FlaskClient, application: Application
) -> None:
    application.tenants.add("acme", "default")
    suppress(client, "B@x.nl", reason="complaint", tenant="acme")
    suppress(client, "b@x.nl")
    suppress(client, "c@x.nl")
    first = client.get("/admin/suppressions?q=x.nl&limit=2").json
    assert [(one["address"], one["tenant"], one["reason"], one["source"]) for one in first["suppressions"]] == [
        ("b@x.nl", None, "manual", "admin"),
        ("b@x.nl", "acme", "complaint", "admin"),
    ]
    rest = client.get("/admin/suppressions", query_string={"cursor": first["nextCursor"]}).json
    assert ([one["address"] for one in rest["suppressions"]], rest["nextCursor"]) == (["c@x.nl"], None)
    assert client.delete("/admin/suppressions/b@x.nl?tenant=acme").json["reason"] == "complaint"
    assert client.delete("/admin/suppressions/b@x.nl?tenant=acme").status_code == 404
    done = [(line.action, line.subject) for line in application.audit.lines(limit=2)]
    assert done == [("suppression.remove", "suppression:b@x.nl tenant:acme"), ("suppression.add", "suppression:c@x.nl")]


@pytest.mark.parametrize(
    ("body", "field"),
    [({"address": "jan"}, "address"), ({"address": "a@x.nl", "tenant": "nobody"}, "tenant"), ({}, "address")],
)
def test_what_cannot_stand_on_the_list_is_refused_by_field(
    client: FlaskClient, body: dict[str, str], field: str
) -> None:
    answer = client.post("/admin/suppressions", json=body)
    assert (answer.status_code, list(answer.json["fieldErrors"])) == (400, [field])


def test_a_list_is_imported_as_a_whole_or_not_at_all_and_exported(client: FlaskClient) -> None:
    def upload(text: str, **form: str):  # type: ignore[no-untyped-def]
        form_data = {"file": (io.BytesIO(text.encode()), "list.csv"), **form}
        return client.post("/admin/suppressions/import", data=form_data)

    bad = upload("address\na@x.nl\njan\n")
    assert (bad.status_code, bad.json["errors"][0]["row"], bad.json["added"]) == (422, 3, 0)
    assert upload("address\na@x.nl\n", dryRun="true").json["added"] == 1
    assert upload("address\na@x.nl\n", reason="hard-bounce").json == {
        "rows": 1, "added": 1, "known": 0, "errorCount": 0, "errors": [], "dryRun": False,
    }  # fmt: skip
    exported = client.get("/admin/suppressions/export.csv")
    assert exported.text.splitlines()[1].startswith("a@x.nl,,hard-bounce,admin: list.csv,")


def test_who_gets_nothing_is_told_when_mail_is_handed_in_and_shown_with_the_message(
    client: FlaskClient, news: str
) -> None:
    suppress(client, "b@x.nl")
    mail = MAIL | {"mailbox": news}
    answer = client.post("/messages", json={"messages": [mail | {"to": "a@x.nl"}, mail | {"to": "a@x.nl, b@x.nl"}]})
    [told] = answer.json["suppressed"]
    assert (told["message"], told["address"], told["reason"]) == (1, "b@x.nl", "manual")
    shown = client.get(f"/messages/{answer.json['ids'][1]}").json
    assert [one["address"] for one in shown["recipients"]] == ["a@x.nl"]
    assert [(one["address"], one["result"], one["code"]) for one in shown["results"]] == [
        ("b@x.nl", "suppressed", "manual")
    ]
    refused = client.post("/messages", json={"messages": [mail | {"to": "a@x.nl"}, mail | {"to": "b@x.nl"}]})
    assert refused.status_code == 400
    assert "b@x.nl (manual since" in refused.json["fieldErrors"]["messages[1].to"]


def test_mail_that_people_need_is_handed_in_for_who_unsubscribed(client: FlaskClient, news: str) -> None:
    suppress(client, "b@x.nl", reason="unsubscribe")
    mail = MAIL | {"mailbox": news, "to": "b@x.nl"}
    assert client.post("/messages", json=mail).status_code == 400
    answer = client.post("/messages", json=mail | {"ignoreUnsubscribed": True})
    assert (answer.status_code, answer.json["suppressed"]) == (201, [])
