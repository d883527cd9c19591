"""A token that is bound to mailboxes neither sends nor sees nor cancels mail of another, by whatever address."""

from __future__ import annotations

import io
import re

import pytest
from flask import Flask
from flask.testing import FlaskClient

from rqmail.bootstrap import Application

MAIL = {"to": "a@x.nl", "subject": "Factuur", "text": "dag", "attachments": [{"name": "a.txt", "contentBytes": "ZGFn"}]}
FILE = b"to,subject,text\na@x.nl,Hallo,dag\n"

#: What such a token may ask for, where the answer depends on whose mail it is.
REACHED = {
    "/ui/compose",
    "/messages",
    "/messages/<message_id>",
    "/messages/<message_id>/attachments/<number>",
    "/messages/imports",
    "/messages/imports/<import_id>",
    "/messages/imports/<import_id>/errors.csv",
    "/messages/imports/<import_id>/undo",
}


@pytest.fixture
def bound(web: Flask, application: Application) -> FlaskClient:
    """A client whose token sends and reads, bound to the mailbox own."""
    for key in ("own", "other"):
        application.mailboxes.add(key, f"{key}@x.nl")
    _, token = application.access.create("erp", ["send", "read"], by="admin", mailboxes=["own"])
    client = web.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {token}"
    return client


def test_it_sees_what_it_sent_and_nothing_of_another_mailbox(bound: FlaskClient, client: FlaskClient) -> None:
    [own] = bound.post("/messages", json=MAIL | {"mailbox": "own"}).json["ids"]
    [other] = client.post("/messages", json=MAIL | {"mailbox": "other"}).json["ids"]
    assert bound.get(f"/messages/{own}").json["subject"] == "Factuur"
    assert bound.get(f"/messages/{own}/attachments/1").data == b"dag"
    assert [one["id"] for one in bound.get("/messages?mailbox=own").json["messages"]] == [own]
    for path in (f"/messages/{other}", f"/messages/{other}/attachments/1"):
        assert (bound.get(path).status_code, client.get(path).status_code) == (404, 200), path
    for query in ("", "?mailbox=other", "?q=Factuur", "?tenant=own", "?mailbox=own&mailbox=other"):
        answer = bound.get(f"/messages{query}")
        assert answer.status_code in {400, 403} or [one["id"] for one in answer.json["messages"]] == [own], query
        assert other not in answer.text


def test_it_hands_in_and_undoes_its_own_files_alone(bound: FlaskClient, client: FlaskClient) -> None:
    def hand_in(who: FlaskClient, mailbox: str) -> str:
        form = {"file": (io.BytesIO(FILE), "a.csv"), "mailbox": mailbox}
        return str(who.post("/messages/imports", data=form).json["id"])

    own, other = hand_in(bound, "own"), hand_in(client, "other")
    for path in ("", "/errors.csv"):
        assert bound.get(f"/messages/imports/{own}{path}").status_code == 200
        assert bound.get(f"/messages/imports/{other}{path}").status_code == 404
    assert bound.post(f"/messages/imports/{other}/undo").status_code == 404
    assert bound.post(f"/messages/imports/{own}/undo").json["cancelled"] == 1
    assert bound.get("/messages/imports").status_code == 403


def test_every_other_address_is_closed_to_it(web: Flask, bound: FlaskClient) -> None:
    asked = 0
    for rule in web.url_map.iter_rules():
        view = web.view_functions[rule.endpoint]
        if rule.endpoint == "static" or getattr(view, "rqmail_scope", None) is None:
            continue
        if rule.rule in REACHED:
            continue
        path = re.sub(r"<[^>]+>", "own", re.sub(r"<any\(\W*(\w+)[^>]*>", r"\1", rule.rule))
        for method in (rule.methods or set()) - {"OPTIONS", "HEAD"}:
            assert bound.open(path, method=method).status_code == 403, (method, path)
            asked += 1
    assert asked > 60


@pytest.mark.parametrize("written_as", ["other@x.nl", "Other <OTHER@X.NL>", "own@x.nl, other@x.nl"])
def test_it_writes_in_the_name_of_no_other_mailbox(bound: FlaskClient, client: FlaskClient, written_as: str) -> None:
    mail = MAIL | {"mailbox": "own", "from": written_as}
    assert bound.post("/messages", json=mail).status_code in {400, 403}
    assert bound.post("/messages", json={"messages": [MAIL | {"mailbox": "own"}, mail]}).status_code in {400, 403}
    assert client.get("/messages").json["messages"] == []
    assert bound.post("/messages", json=mail | {"from": "boss@elsewhere.nl"}).status_code == 201
