"""Senders are tried with their provider without a mail being sent, and the answer is kept, on both databases."""

from __future__ import annotations

import json
import threading
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from rqmail import bootstrap
from rqmail.insight.checked import last_check, last_checks
from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Draft
from rqmail.models.base import db
from rqmail.models.bounces import note_bounce
from rqmail.models.mailbox import takes_no_property
from rqmail.models.message import Message
from rqmail.sandbox.directory import SANDBOX_CLIENT_ID, SANDBOX_CLIENT_SECRET, SANDBOX_TENANT_ID, SandboxDirectory
from rqmail.sandbox.server import Sandbox
from rqmail.settings import Settings
from support.messages import new_message


def graph_of(sandbox):
    """The settings of an installation whose Graph is this sandbox."""
    return {
        "graph_base_url": sandbox.base_url,
        "graph_authority": sandbox.authority,
        "ca_bundle": sandbox.ca_file,
        "graph_tenant_id": SANDBOX_TENANT_ID,
        "graph_client_id": SANDBOX_CLIENT_ID,
        "graph_client_secret": SANDBOX_CLIENT_SECRET,
    }


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox() as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def stranger():
    """A server that answers what it was told to, whatever it is asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            self.server.asked.append(self.path)
            self.send_response(self.server.answer[0])
            self.end_headers()
            self.wfile.write(json.dumps(self.server.answer[1]).encode())

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.asked, server.answer = [], (501, {})
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def make(database, redis_url, clock, sandbox):
    """Build an application whose Graph is the sandbox, with other settings where given."""
    made = []

    def make(**other):
        graph = graph_of(sandbox)
        base = {"database_url": database.url, "redis_url": redis_url, "secret_key": "a-key-for-tests-only"}
        made.append(bootstrap.build(Settings(_env_file=None, **(base | graph | other)), clock))
        return made[-1]

    yield make
    for application in made:
        application.limiter.close()
        application.redis.close()
    db.obj.close_all()


def test_a_mailbox_is_found_readable_and_its_check_is_kept_with_its_time(make, clock):
    application = make()
    application.mailboxes.add("news", "news@x.nl")
    check = application.checks.check("mailbox:news")
    assert (check.level, check.exists, check.may_send, check.may_read, check.may_write) == ("ok", *[True] * 4)
    assert check.checked_on == clock()
    assert last_check("mailbox:news") == check
    clock.advance(timedelta(seconds=60))
    later = application.checks.check_all(["mailbox:news"])["mailbox:news"]
    assert later.checked_on > check.checked_on
    assert last_checks() == {"mailbox:news": later}
    application.checks.forget("mailbox:news")
    assert last_check("mailbox:news") is None


def test_what_was_said_about_a_sender_goes_with_it(make):
    application = make()
    application.mailboxes.add("news", "news@x.nl")
    application.tenants.add("acme", provider="sendgrid", sendgrid_from="a@x.nl")
    application.checks.check_all(["mailbox:news", "tenant:acme"])
    application.mailboxes.delete("news")
    application.tenants.delete("acme")
    assert last_checks() == {}


def test_a_wrong_secret_names_the_setting_and_is_an_error(make):
    application = make(graph_client_secret="wrong")
    application.mailboxes.add("news", "news@x.nl")
    check = application.checks.check_saved("mailbox:news")
    assert (check.level, check.may_send) == ("error", False)
    assert "RQMAIL_GRAPH_CLIENT_SECRET" in check.problem


def test_a_permission_that_the_token_does_not_name_is_not_known_for_exchange_may_grant_it(make):
    with Sandbox(directory=SandboxDirectory(may_send=False)) as sandbox:
        application = make(**graph_of(sandbox))
        application.mailboxes.add("news", "news@x.nl")
        check = application.checks.check("mailbox:news")
    assert (check.level, check.may_send, check.may_read) == ("ok", None, True)


def test_a_mailbox_that_may_not_be_read_is_a_warning(make):
    with Sandbox(directory=SandboxDirectory(may_read_mail=False)) as sandbox:
        application = make(**graph_of(sandbox))
        application.mailboxes.add("news", "news@x.nl")
        check = application.checks.check("mailbox:news")
    assert (check.level, check.may_send, check.may_read, check.may_write) == ("warning", True, False, None)


@pytest.mark.parametrize(
    ("answer", "level", "exists"),
    [
        ((501, {}), "warning", None),
        ((404, {}), "warning", None),
        ((404, {"error": {"code": "ErrorInvalidUser", "message": "x"}}), "error", False),
        ((403, {"error": {"code": "ErrorAccessDenied", "message": "[RAOP]: Blocked by tenant"}}), "error", True),
    ],
)
def test_what_a_server_cannot_answer_is_not_known_and_a_no_is_an_error(make, stranger, answer, level, exists):
    stranger.answer = answer
    application = make(graph_base_url=f"http://127.0.0.1:{stranger.server_port}/v1.0")
    application.mailboxes.add("news", "news@x.nl")
    check = application.checks.check("mailbox:news")
    assert (check.level, check.exists) == (level, exists)


def test_a_provider_that_is_away_is_a_warning_and_no_sender_is_called_wrong(make):
    application = make(graph_base_url="http://127.0.0.1:1/v1.0")
    keys = [f"m{n}" for n in range(8)]
    for key in keys:
        application.mailboxes.add(key, f"{key}@x.nl")
    checks = application.checks.check_all(f"mailbox:{key}" for key in keys)
    assert {(check.level, check.outcome) for check in checks.values()} == {("warning", "away")}


@pytest.mark.parametrize(
    ("answer", "level", "may_send"),
    [
        ((200, {"scopes": ["mail.send", "user.email.read"]}), "ok", True),
        ((200, {"scopes": ["user.email.read"]}), "error", False),
        ((401, {"errors": [{"message": "authorization required"}]}), "error", False),
        ((404, {}), "warning", None),
        ((200, "no object"), "warning", None),
    ],
)
def test_a_sendgrid_key_is_checked_by_its_scopes(make, stranger, answer, level, may_send):
    stranger.answer = answer
    application = make(sendgrid_base_url=f"http://127.0.0.1:{stranger.server_port}")
    application.tenants.add("beta", "sendgrid", sendgrid_from="post@beta.nl", sendgrid_api_key="SG.key")
    check = application.checks.check("tenant:beta")
    assert (check.level, check.may_send) == (level, may_send)
    assert stranger.asked[-1] == "/v3/scopes"


def test_nothing_is_asked_or_kept_at_saving_where_no_app_is_configured(make):
    application = make(graph_client_id=None)
    application.mailboxes.add("news", "news@x.nl")
    assert application.checks.check_saved("mailbox:news") is None
    assert last_check("mailbox:news") is None
    assert "RQMAIL_GRAPH_CLIENT_ID is not set" in application.checks.check("mailbox:news").problem


def test_a_secret_that_our_key_does_not_open_is_told_of_its_tenant_and_keeps_no_other_from_being_checked(make):
    application = make()
    application.tenants.add("beta", "sendgrid", sendgrid_from="post@beta.nl", sendgrid_api_key="SG.key")
    application.mailboxes.add("news", "news@x.nl")
    other = make(secret_key="another-key-for-tests-only")
    checks = other.checks.check_all(["tenant:beta", "mailbox:news"])
    assert {name: check.level for name, check in checks.items()} == {"tenant:beta": "error", "mailbox:news": "ok"}
    assert "RQMAIL_SECRET_KEY" in checks["tenant:beta"].problem


def test_whether_large_mails_may_leave_is_asked_of_each_mailbox_and_told_by_doctor_and_at_intake(make):
    with Sandbox(directory=SandboxDirectory(may_write_mail=False)) as sandbox:
        application = make(**graph_of(sandbox))
        application.mailboxes.add("news", "news@x.nl")
        check = application.checks.check("mailbox:news")
        assert (check.level, check.may_read, check.may_write) == ("ok", True, False)
        findings = [str(one.text) for one in application.checkup.senders().findings]
        assert "Mail.ReadWrite is missing for mails over 4 MB: these wait" in findings
    large, small = (
        Draft("mailbox:news", "Hallo", "a@x.nl", text="dag", attachments=[Attachment("a.bin", bytes(size))])
        for size in (4 * 1024 * 1024, 1024)
    )
    checks = application.intake.checks()
    assert [one.code.value for one in checks.check(large).notices] == ["lacks-read-write"]
    assert checks.check(small).notices == ()


def test_a_mailbox_that_takes_no_property_is_told_by_doctor_for_a_week(make, clock):
    application = make()
    application.mailboxes.add("news", "News@x.nl")
    takes_no_property("news@x.nl", application.clock())
    assert application.senders.find("mailbox:news").marked is False
    assert application.mailboxes.takes_no_property("news") == application.clock()
    assert "no-names" in [one.text.code for one in application.checkup.senders().findings]
    takes_no_property("news@x.nl", application.clock() - timedelta(days=8))
    application.senders.forget()
    assert application.senders.find("mailbox:news").marked is True
    assert application.mailboxes.takes_no_property("news") is None


def test_a_mailbox_whose_mail_comes_back_too_much_is_told_by_doctor(make, clock):
    application = make()
    application.mailboxes.add("news", "News@x.nl")
    application.mailboxes.add("post", "post@x.nl")
    application.tenants.add("beta", "sendgrid", sendgrid_from="post@beta.nl")
    to = tuple(f"r{n}@x.nl" for n in range(20))
    [message_id] = Message.submit([new_message("mailbox:news", to=to)], clock())
    Message.update(status="SENT", mailbox_key="news@x.nl", attempted_on=clock(), sent_on=clock()).execute()
    for address in to[:3]:
        note_bounce(message_id, address, code="5.1.1", detail="no", at=clock(), probable=False)
    [found] = [one for one in application.checkup.senders().findings if one.text.code == "comes-back"]
    assert (found.name, found.level, found.advice.code) == ("mailbox news", "warning", "clean-lists")
    assert str(found.text) == "15 % of its mail came back in 7 days (3 of 20 recipients)"
    assert str(found.text) in [str(one.text) for one in application.checkup.everything()]
