"""Links to unsubscribe: signed, without an address in them, good for ever, and answered as RFC 8058 has it."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from datetime import timedelta
from urllib.parse import urlsplit

import pytest
from flask.testing import FlaskClient

from rqmail import bootstrap
from rqmail.bootstrap import Application
from rqmail.campaigns.unsubscribing import Unsubscribing
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.intake.draft import Draft
from rqmail.models.base import db, pooled_connection
from rqmail.models.message import Message
from rqmail.settings import Settings
from rqmail.web import create_app
from support.clock import START, MovableClock
from support.databases import BoundDatabase

KEY, OTHER = "a key for the tests, long enough", "another-key-for-tests"
MESSAGE = "0198f6a2-77f1-7c3e-9d55-0a8f4be2c1d7"
ONE_CLICK = {"List-Unsubscribe": "One-Click"}


@pytest.fixture
def links(database: BoundDatabase, clock: MovableClock) -> Unsubscribing:
    return Unsubscribing(clock, "https://mail.example.org/rq", [KEY])


def token(url: str) -> str:
    return url.rpartition("/")[2]


def test_a_link_names_nobody_and_belongs_to_one_person_within_one_scope(links: Unsubscribing) -> None:
    url = links.url_for("Jan@X.nl", "mailbox:news", message_id=MESSAGE)
    assert url.startswith("https://mail.example.org/rq/unsubscribe/")
    raw = base64.urlsafe_b64decode(token(url) + "==")
    assert b"jan" not in raw.lower()
    assert b"x.nl" not in raw.lower()
    found = links.read(token(url))
    assert (found.address, found.scope, found.source) == ("jan@x.nl", "installation", f"link of message {MESSAGE}")
    of_tenant = links.read(token(links.url_for("jan@x.nl", "tenant:acme", campaign_id=MESSAGE)))
    assert (of_tenant.scope, of_tenant.source) == ("tenant:acme", f"link of campaign {MESSAGE}")
    many = links.links(["jan@x.nl", "b@x.nl", "JAN@x.nl"], "default")
    assert list(many) == ["jan@x.nl", "b@x.nl"]
    assert links.links(["jan@x.nl"], "mailbox:other")["jan@x.nl"] == many["jan@x.nl"]


def test_a_link_that_was_changed_anywhere_is_none(links: Unsubscribing) -> None:
    whole = token(links.url_for("jan@x.nl", "default", message_id=MESSAGE))
    for place in range(len(whole)):
        changed = whole[:place] + ("A" if whole[place] != "A" else "B") + whole[place + 1 :]
        if base64.urlsafe_b64decode(changed + "=" * (-len(changed) % 4)) == base64.urlsafe_b64decode(
            whole + "=" * (-len(whole) % 4)
        ):
            continue  # bits that base64 leaves unused
        with pytest.raises(NotFoundError):
            links.read(changed)
    for nonsense in ("", "a", "é", "!" * 40, whole[:-1], whole + whole, "A" * 5_000):
        with pytest.raises(NotFoundError):
            links.read(nonsense)


def test_links_outlive_a_change_of_the_key_and_the_message_they_stood_in(
    links: Unsubscribing, clock: MovableClock
) -> None:
    old = token(links.url_for("jan@x.nl", "default", message_id=MESSAGE))
    clock.advance(days=4_000)
    rotated = Unsubscribing(clock, "https://mail.example.org", [OTHER, KEY])
    assert rotated.read(old).address == "jan@x.nl"
    new = token(rotated.url_for("jan@x.nl", "default"))
    assert rotated.read(new).address == "jan@x.nl"
    with pytest.raises(NotFoundError):
        links.read(new)


# --- in mail -------------------------------------------------------------------------------------------------------


@pytest.fixture
def application(sqlite_database: BoundDatabase, redis_url: str, clock: MovableClock) -> Iterator[Application]:
    settings = Settings(
        _env_file=None,
        database_url=sqlite_database.url,
        redis_url=redis_url,
        secret_key=KEY,
        former_secret_keys=f"{OTHER},",
        web_url="https://localhost",
    )
    application = bootstrap.build(settings, clock)
    application.mailboxes.add("news", "news@contoso.example")
    yield application
    application.limiter.close()
    application.redis.close()
    db.obj.close_all()


@pytest.fixture
def web(application: Application) -> FlaskClient:
    return create_app(application, trusted_hosts=["localhost"]).test_client()


def draft(to: str = "jan@x.nl", **fields: object) -> Draft:
    return Draft("mailbox:news", "News", to=to, text="Hi.", **{"unsubscribe": True, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"to": "a@x.nl, b@x.nl"}, "2 recipients"),
        ({"unsubscribe_url": "https://x.nl/u"}, "either this or an address"),
        ({"headers": [("List-Unsubscribe", "<mailto:u@x.nl>")]}, "either this or an address"),
        ({"unsubscribe": "yes"}, "true or false"),
    ],
)
def test_a_mail_that_cannot_have_a_link_is_refused(application: Application, fields: dict[str, str], said: str) -> None:
    with pytest.raises(InvalidInputError, match=said) as refused:
        application.intake.submit(draft(**fields))
    assert refused.value.field == "unsubscribe"


@pytest.mark.parametrize(
    ("web_url", "keys", "said"), [(None, [KEY], "RQMAIL_WEB_URL"), ("https://x.nl", [], "RQMAIL_SECRET_KEY")]
)
def test_what_has_to_be_set_for_links_is_said(
    application: Application, clock: MovableClock, web_url: str | None, keys: list[str], said: str
) -> None:
    application.__dict__["unsubscribing"] = Unsubscribing(clock, web_url, keys)
    with pytest.raises(InvalidInputError, match=said):
        application.intake.submit(draft())


def test_a_mail_is_sent_with_its_link_and_one_click_on_it_keeps_the_next_from_leaving(
    application: Application, web: FlaskClient
) -> None:
    sent = []

    class Mailer:
        def send(self, mail):  # type: ignore[no-untyped-def]
            mail.permit.take()
            sent.append(mail)
            raise InvalidInputError("enough", "", "")

    application.senders.mailer = lambda _sender: Mailer()  # type: ignore[assignment,method-assign,return-value]
    application.intake.submit(draft())
    application.dispatcher.tick()
    application.send([row.id for row in messages()])
    [mail] = sent
    assert mail.headers["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
    url = re.fullmatch(r"<(https://localhost/unsubscribe/[\w-]+)>", mail.headers["List-Unsubscribe"])
    assert url is not None
    answer = web.post(urlsplit(url[1]).path, data=ONE_CLICK, base_url="https://localhost")
    assert answer.status_code == 200
    [entry] = application.suppressions.find()
    assert (entry.address, entry.reason, entry.since) == ("jan@x.nl", "unsubscribe", START)
    assert entry.source == f"link of message {mail.id}"
    with pytest.raises(InvalidInputError, match="unsubscribe since"):
        application.intake.submit(draft())


# --- in the reader's browser and mail program -----------------------------------------------------------------------


def messages() -> list[Message]:
    with pooled_connection():
        return list(Message.select())


def path(application: Application) -> str:
    return urlsplit(application.unsubscribing.url_for("jan@x.nl", "mailbox:news")).path


@pytest.mark.parametrize("origin", [None, "https://mail.google.example", "null"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data"])
def test_one_click_unsubscribes_from_anywhere_without_a_cookie_or_a_redirect(
    application: Application, web: FlaskClient, origin: str | None, kind: str
) -> None:
    headers = {} if origin is None else {"Origin": origin}
    for _ in range(2):
        answer = web.post(path(application), data=ONE_CLICK, headers=headers, content_type=kind)
        assert (answer.status_code, answer.headers.getlist("Set-Cookie")) == (200, [])
    assert [one.reason for one in application.suppressions.find()] == ["unsubscribe"]
    assert [line.action for line in application.audit.lines() if line.who == "recipient"] == ["suppression.unsubscribe"]


def test_a_scanner_that_follows_the_link_unsubscribes_nobody_and_a_person_is_asked_in_their_language(
    application: Application, web: FlaskClient
) -> None:
    shown = web.get(path(application), headers={"Accept-Language": "nl-NL"})
    assert (shown.status_code, shown.headers.getlist("Set-Cookie")) == (200, [])
    assert "Afmelden" in shown.text
    assert "j…@x.nl" in shown.text
    assert "jan@" not in shown.text
    assert web.post(path(application), data={"other": "1"}).status_code == 400
    assert application.suppressions.find() == []
    form = dict(re.findall(r'<input type="hidden" name="(\w+)" value="(\w+)">', shown.text))
    done = web.post(path(application), data=form)
    assert "You are unsubscribed" in done.text
    assert len(application.suppressions.find()) == 1


def test_a_link_that_is_not_whole_is_said_to_be_none(application: Application, web: FlaskClient) -> None:
    for method in (web.get, web.post):
        answer = method(path(application)[:-4], data=ONE_CLICK)
        assert (answer.status_code, "not whole" in answer.text) == (404, True)
    assert application.suppressions.find() == []


def test_a_second_is_enough_for_mail_that_waits_to_stay(application: Application, web: FlaskClient) -> None:
    application.intake.submit(Draft("mailbox:news", "News", to="jan@x.nl", text="Hi.", at=START + timedelta(seconds=0)))
    web.post(path(application), data=ONE_CLICK)
    application.dispatcher.tick()
    application.send([row.id for row in messages()])
    [row] = messages()
    assert (row.status, "suppressed: jan@x.nl (unsubscribe" in row.last_error) == ("ERROR", True)
