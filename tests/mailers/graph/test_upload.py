"""A mail larger than one request goes up in parts: whatever breaks on the way, it is sent once or certainly not."""

from __future__ import annotations

import hashlib
import json
import random
from dataclasses import replace
from datetime import UTC, datetime
from io import BytesIO

import msal
import pytest
import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from rqmail.errors import (
    MailboxNotWritableError,
    MailboxUnavailableError,
    MailClaimLostError,
    MailError,
    MailOutcomeUnknownError,
    MailRejectedError,
    MailThrottledError,
    MailTransientError,
    NoNamedPropertyError,
)
from rqmail.mailers.base import Address, Mail, MailFile, Permit
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailbox import GraphMailbox
from rqmail.mailers.graph.mailer import MicrosoftGraphMailer
from rqmail.mailers.graph.message import encode_message, internet_message_id, request_size
from rqmail.mailers.graph.size import LARGEST_REQUEST, RANGE_BYTES
from rqmail.mailers.http.transport import Transport
from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.server import Sandbox

SENDER = "noreply@contoso.example"
SIZE = 2 * RANGE_BYTES + 1234
CONTENT = random.Random(7).randbytes(SIZE)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory):
    with Sandbox(data_dir=tmp_path_factory.mktemp("sandbox")) as running:
        yield running


@pytest.fixture
def control(sandbox):
    control = SandboxControl(sandbox.authority, sandbox.ca_file)
    control.reset()
    return control


@pytest.fixture(scope="module")
def token(sandbox):
    known = sandbox.directory
    with requests.Session() as http:
        http.trust_env, http.verify = False, str(sandbox.ca_file)
        app = msal.ConfidentialClientApplication(
            known.client_id,
            client_credential=known.client_secret,
            authority=f"{sandbox.authority}/{known.tenant_id}",
            instance_discovery=False,
            http_client=http,
        )
        return app.acquire_token_for_client(["https://graph.microsoft.com/.default"])["access_token"]


class Recorded(Transport):
    """Writes down every request that goes out."""

    def __init__(self, **options):
        super().__init__(**options)
        self.asked = []

    def request(self, method, url, headers, body=None, **options):
        self.asked.append((method, url, dict(headers), len(body or b"")))
        return super().request(method, url, headers, body, **options)

    @property
    def steps(self):
        ends = [(method, url.partition("?")[0].rstrip("/").rsplit("/", 1)[1]) for method, url, _, _ in self.asked]
        known = {"messages", "attachments", "createUploadSession", "send", "sendMail"}
        return [f"{method} {end}" if end in known else method for method, end in ends]


@pytest.fixture
def transport(sandbox):
    transport = Recorded(connect_timeout=5, answer_timeout=5, ca_bundle=sandbox.ca_file)
    yield transport
    transport.close()


@pytest.fixture
def sleeps():
    return []


@pytest.fixture
def mailer(sandbox, token, transport, clock, sleeps, control):
    class Tokens:
        def token(self):
            return token

        def renewed(self, refused, claims):
            return token

    return MicrosoftGraphMailer(
        GraphHttp(transport, Tokens()), sandbox.base_url, SENDER, clock=clock, sleep=sleeps.append
    )


def file(name="groot.bin", content=CONTENT, kind="application/octet-stream", **fields):
    return MailFile(name, kind, len(content), hashlib.sha256(content).hexdigest(), lambda: BytesIO(content), **fields)


@pytest.fixture
def large(mail):
    return replace(mail, files=(file(),), permit=Permit(lambda: None), attempt="m:1")


def attached(control):
    [taken] = control.accepted()
    return [(one["name"], one["size"], one["sha256"]) for one in taken["attachments"]]


def drafts(sandbox, token):
    url = f"{sandbox.base_url}/users/{SENDER}/mailFolders/drafts/messages"
    with requests.Session() as http:
        http.trust_env = False
        answer = http.get(url, headers={"Authorization": f"Bearer {token}"}, verify=str(sandbox.ca_file), timeout=10)
        return answer.json()["value"]


WHOLE = [("groot.bin", SIZE, hashlib.sha256(CONTENT).hexdigest())]


def test_a_large_mail_leaves_as_a_draft_with_its_files_in_their_order(
    control, mailer, transport, large, sandbox, token
):
    picture = file("logo.png", b"PNG" * 100, "image/png", is_inline=True, content_id="logo@x")
    last = file("zo\u00eb.txt", b"dag", "text/plain")
    mailer.send(replace(large, files=(picture, file(), last)))

    [taken] = control.accepted()
    assert (taken["via"], taken["rqmailId"], taken["subject"]) == ("draft", large.id, large.subject)
    assert (taken["to"], taken["bcc"], taken["body"]) == (
        [one.address for one in large.to],
        [one.address for one in large.bcc],
        large.html,
    )
    assert [one["name"] for one in taken["attachments"]] == ["logo.png", "groot.bin", "zo\u00eb.txt"]
    assert (taken["attachments"][0]["isInline"], taken["attachments"][0]["contentId"]) == (True, "logo@x")
    assert attached(control)[1] == WHOLE[0]
    assert transport.steps == [
        "POST messages",
        "POST attachments",
        "POST createUploadSession",
        "PUT",
        "PUT",
        "PUT",
        "POST attachments",
        "POST send",
    ]
    assert drafts(sandbox, token) == []


def test_ranges_are_below_four_megabytes_and_multiples_of_320_kib_and_our_token_is_not_told_there(
    mailer, transport, large
):
    mailer.send(large)
    ranges = [(headers, size) for method, _, headers, size in transport.asked if method == "PUT"]
    assert [size for _, size in ranges] == [RANGE_BYTES, RANGE_BYTES, 1234]
    assert RANGE_BYTES % (320 * 1024) == 0
    assert RANGE_BYTES < 4_000_000
    assert not any("authorization" in map(str.lower, headers) for headers, _ in ranges)
    assert all("Prefer" in headers for method, _, headers, _ in transport.asked if method != "PUT")


def test_a_mail_that_fits_one_request_is_sent_in_one(control, mailer, transport, mail):
    room = LARGEST_REQUEST - request_size(replace(mail, files=(file(content=b""),)))
    fits = replace(mail, files=(file(content=b"x" * (room // 4 * 3)),))
    mailer.send(fits)
    mailer.send(replace(fits, files=(file(content=b"x" * (room // 4 * 3 + 3)),)))
    assert transport.steps[0] == "POST sendMail"
    assert transport.steps[1] == "POST messages"
    assert [taken["via"] for taken in control.accepted()] == ["json", "draft"]


names = st.text(st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=40)


@settings(max_examples=40)
@given(st.lists(st.tuples(names, st.binary(max_size=50), st.booleans()), max_size=4), st.text(max_size=50))
def test_the_size_of_a_request_is_known_before_a_file_is_read(files, text):
    inline = {"is_inline": True, "content_id": "logo@x"}
    mail = Mail(
        "m-1",
        "s",
        (Address("a@x.nl"),),
        text=text,
        files=tuple(file(name, content, **(inline if shown else {})) for name, content, shown in files),
    )
    assert request_size(mail) == len(encode_message(mail))


def test_a_file_is_read_range_by_range(mailer, large):
    most = []

    class Watched(BytesIO):
        def read(self, size=-1):
            most.append(size)
            return super().read(size)

    mailer.send(replace(large, files=(replace(file(), open=lambda: Watched(CONTENT)),)))
    assert set(most) == {RANGE_BYTES}


# --- ranges that fail ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "status", "status": 503},
        {"kind": "status", "status": 500},
        {"kind": "status", "status": 400},
        {"kind": "status", "status": 416},
        {"kind": "status", "status": 429, "headers": {"Retry-After": "7"}},
        {"kind": "reset"},
        {"kind": "html", "status": 502},
        {"kind": "accept-then-reset"},
        {"kind": "accept-then-504"},
    ],
    ids=lambda fault: f"{fault['kind']} {fault.get('status', '')}",
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_range_that_failed_is_gone_on_with_where_the_upload_stands(control, mailer, large, sleeps, fault, at):
    put_one = {"kind": "latency", "operation": "putRange", "seconds": 0.0}
    for rule in [put_one] * at + [{**fault, "operation": "putRange"}]:
        control.faults(**rule)
    mailer.send(large)
    assert attached(control) == WHOLE
    assert sleeps == [7.0 if fault.get("status") == 429 else 1.0]


def test_a_range_that_was_taken_although_its_answer_was_lost_is_not_sent_again(control, mailer, transport, large):
    control.faults("accept-then-reset", operation="putRange")
    mailer.send(large)
    assert transport.steps.count("PUT") == 3
    assert attached(control) == WHOLE


def test_a_session_that_is_gone_is_begun_again(control, mailer, transport, large):
    control.faults("latency", operation="putRange", seconds=0.0)
    control.faults("status", status=404, code="ErrorItemNotFound", operation="putRange")
    mailer.send(large)
    assert transport.steps.count("POST createUploadSession") == 2
    assert attached(control) == WHOLE


def test_an_upload_that_is_forgotten_again_and_again_is_given_up_for_now(
    control, mailer, transport, large, sandbox, token
):
    control.faults("status", count=None, status=404, operation="putRange")
    with pytest.raises(MailTransientError, match="forgot an upload 3 times; nothing was sent"):
        mailer.send(large)
    assert transport.steps.count("POST createUploadSession") == 3
    assert drafts(sandbox, token) == []


def test_an_upload_that_does_not_get_on_is_given_up_for_now(control, mailer, large, sleeps, sandbox, token):
    control.faults("status", count=None, status=503, operation="putRange")
    with pytest.raises(MailThrottledError):
        mailer.send(large)
    assert sleeps == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0]
    assert drafts(sandbox, token) == []


def test_a_long_wait_that_is_asked_for_pauses_the_mailbox_instead(control, mailer, large, sleeps):
    control.faults("status", status=429, headers={"Retry-After": "90"}, operation="putRange")
    with pytest.raises(MailThrottledError) as caught:
        mailer.send(large)
    assert (caught.value.retry_after, sleeps) == (90.0, [])


@pytest.mark.parametrize(
    ("ranges", "following"),
    [
        ({"nextExpectedRanges": ["100"]}, 100),
        ({"NextExpectedRanges": ["100-"]}, 100),
        ({"nextExpectedRanges": ["0-", "5-9"]}, 0),
        ({"nextExpectedRanges": ["26-199"]}, 26),
        ({"nextExpectedRanges": []}, None),
        ({"nextExpectedRanges": ["x"]}, None),
        ({"nextExpectedRanges": "7"}, None),
        ({}, None),
        ([], None),
    ],
)
def test_where_an_upload_stands_is_read_in_every_spelling(ranges, following):
    from rqmail.mailers.graph.upload_session import _next_expected
    from rqmail.mailers.http.transport import Answer

    assert _next_expected(Answer(200, {}, json.dumps(ranges).encode())) == following


# --- before /send everything is certain ----------------------------------------------------------------------------


@pytest.mark.parametrize("operation", ["createDraft", "addAttachment", "createUploadSession", "listAttachments"])
@pytest.mark.parametrize("kind", ["accept-then-reset", "reset", "accept-then-504", "truncated-json"])
def test_whatever_is_lost_before_the_send_is_certain_and_leaves_no_draft(
    control, mailer, large, sandbox, token, operation, kind
):
    if operation == "listAttachments":
        control.faults("status", status=404, operation="putRange")
    status = {"status": 500} if kind == "truncated-json" else {}
    control.faults(kind, operation=operation, **status)
    with pytest.raises(MailTransientError, match="nothing was sent"):
        mailer.send(replace(large, files=(file("a.txt", b"a"), file())))
    assert control.accepted() == []
    assert drafts(sandbox, token) == []
    assert large.permit.taken is False


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"status": 429, "headers": {"Retry-After": "9"}}, MailThrottledError),
        ({"status": 507, "code": "ErrorQuotaExceeded"}, MailboxUnavailableError),
        ({"status": 400, "code": "ErrorInvalidRecipients"}, MailRejectedError),
        ({"status": 403, "code": "ErrorAccessDenied"}, MailboxNotWritableError),
        ({"status": 403, "code": "ErrorAccessDenied", "message": "[RAOP] no"}, MailboxUnavailableError),
    ],
    ids=lambda value: str(value),
)
@pytest.mark.parametrize("operation", ["createDraft", "createUploadSession"])
def test_what_graph_answers_before_the_send_means_what_it_means(control, mailer, large, fault, expected, operation):
    control.faults("status", operation=operation, **fault)
    with pytest.raises(expected) as caught:
        mailer.send(large)
    assert (type(caught.value) is MailboxNotWritableError) == (expected is MailboxNotWritableError)


def test_without_mail_readwrite_a_large_mail_waits_with_just_that_reason_and_a_small_one_goes(
    control, mailer, large, mail
):
    control.configure(directory={"may_write_mail": False})
    with pytest.raises(MailboxNotWritableError, match=r"^Mail\.ReadWrite is missing for mails over 4 MB"):
        mailer.send(large)
    with pytest.raises(MailboxNotWritableError, match=r"^Mail\.ReadWrite is missing for mails over 4 MB"):
        mailer.send(replace(large, tried_before=True))
    mailer.send(mail)
    assert len(control.accepted()) == 1


def test_a_mailbox_that_is_full_in_the_middle_is_said_to_be_full_at_once(control, mailer, large, sleeps):
    control.faults("status", status=507, code="ErrorQuotaExceeded", operation="putRange")
    with pytest.raises(MailboxUnavailableError, match="full"):
        mailer.send(large)
    assert sleeps == []


def test_what_an_earlier_attempt_left_is_removed_before_a_new_draft_is_made(control, mailer, large, sandbox, token):
    control.faults("accept-then-reset", operation="createDraft")
    control.faults("status", status=503, operation="deleteMessage", count=None)
    with pytest.raises(MailTransientError):
        mailer.send(large)
    assert len(drafts(sandbox, token)) == 1
    control.clear_faults()
    mailer.send(replace(large, tried_before=True))
    assert attached(control) == WHOLE
    assert drafts(sandbox, token) == []


def test_a_draft_of_an_earlier_attempt_that_just_left_may_have_been_sent(control, mailer, large):
    control.faults("accept-then-reset", operation="createDraft")
    control.faults("status", status=503, operation="deleteMessage")
    with pytest.raises(MailTransientError):
        mailer.send(large)
    control.faults("status", status=404, code="ErrorItemNotFound", operation="deleteMessage")
    with pytest.raises(MailOutcomeUnknownError, match="may have sent the mail after all"):
        mailer.send(replace(large, tried_before=True))
    assert control.accepted() == []


# --- /send ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["accept-then-reset", "reset", "accept-then-504"])
def test_only_the_send_leaves_it_open_whether_the_mail_was_accepted(control, mailer, large, sandbox, token, kind):
    control.faults(kind, operation="send")
    with pytest.raises(MailOutcomeUnknownError):
        mailer.send(large)
    assert large.permit.taken is True
    assert len(drafts(sandbox, token)) == (kind == "reset"), "it proves that the mail was not sent"


def test_a_send_that_is_refused_leaves_no_draft(control, mailer, large, sandbox, token):
    control.faults("status", operation="send", status=400, code="ErrorInvalidRecipients")
    with pytest.raises(MailRejectedError):
        mailer.send(large)
    assert drafts(sandbox, token) == []


def test_a_draft_that_was_taken_away_before_the_send_is_certainly_not_sent(control, mailer, large):
    control.faults("status", operation="send", status=404, code="ErrorItemNotFound")
    with pytest.raises(MailTransientError, match="removed before it was sent"):
        mailer.send(large)


def test_the_permit_is_taken_for_the_send_alone(control, mailer, large, transport):
    taken = []
    mailer.send(replace(large, permit=Permit(lambda: taken.append(transport.steps[-1]))))
    assert taken == ["POST send"]


def test_the_claim_is_held_before_each_call_for_as_long_as_it_may_take(mailer, large, transport):
    held = []
    large.permit.holds.append(lambda seconds: held.append((len(transport.asked), round(seconds))))
    mailer.send(large)
    assert {asked for asked, _ in held} == set(range(len(transport.asked)))
    whole_range = round(2 * RANGE_BYTES / 100_000)
    assert [seconds for asked, seconds in held if asked in (2, 3)] == [whole_range, whole_range]


@pytest.mark.parametrize("lost_after", range(6))
def test_a_claim_that_is_lost_ends_the_upload_and_removes_its_draft(
    control, mailer, large, transport, sandbox, token, lost_after
):
    def hold(_seconds):
        if len(transport.asked) >= lost_after:
            raise MailClaimLostError("another has it")

    large.permit.holds.append(hold)
    with pytest.raises(MailClaimLostError):
        mailer.send(large)
    assert control.accepted() == []
    assert drafts(sandbox, token) == []


def test_no_error_and_no_cause_of_it_tells_the_address_to_upload_to(control, mailer, large, transport):
    control.faults("reset", count=None, operation="putRange")
    with pytest.raises(MailError) as caught:
        mailer.send(large)
    [token, *_] = {url.rsplit("/", 1)[1] for method, url, _, _ in transport.asked if method == "PUT"}
    link = caught.value
    while link is not None:
        assert token not in f"{link} {link!r}"
        link = link.__cause__ or link.__context__


# --- a mailbox that can create no more named properties ---------------------------------------------------------------


@pytest.fixture
def no_names(control):
    control.configure(limits={"refuse_named_properties": True})


def found(sandbox, transport, token, clock, message_id):
    class Tokens:
        def token(self):
            return token

    mailbox = GraphMailbox(GraphHttp(transport, Tokens()), sandbox.base_url, SENDER, clock=clock, marked=False)
    return mailbox, mailbox.find_sent(message_id, datetime(2020, 1, 1, tzinfo=UTC))


@pytest.mark.parametrize("large", [True, False])
def test_without_names_the_property_is_refused_as_such_and_without_it_the_mail_goes_and_is_found(
    control, mailer, transport, large, mail, sandbox, token, clock, no_names
):
    mail = replace(mail, files=(file(),) if large else (), permit=Permit(lambda: None), attempt="m:1")
    with pytest.raises(NoNamedPropertyError):
        mailer.send(mail)
    assert control.accepted() == []

    mailer.send(replace(mail, internet_message_id=internet_message_id(mail.id, SENDER), marked=False))
    control.configure(sent_items_delay_seconds=0)
    [taken] = control.accepted()
    assert (taken["rqmailId"], taken["attachments"] != []) == (mail.id, large)
    _, sighting = found(sandbox, transport, token, clock, mail.id)
    assert (sighting.folder, sighting.is_upload) == ("sentitems", False)
    assert sighting.internet_message_id == internet_message_id(mail.id, SENDER, upload=large)


def test_a_draft_left_in_a_mailbox_without_names_is_told_from_a_sent_mail_and_removed(
    control, mailer, transport, large, sandbox, token, clock, no_names
):
    class KilledError(BaseException):
        pass

    def killed():
        raise KilledError

    ours = internet_message_id(large.id, SENDER)
    dying = replace(large, internet_message_id=ours, marked=False, permit=Permit(killed))
    dying.permit.taken = True  # so that nothing cleans up after it
    with pytest.raises(KilledError):
        mailer.send(dying)
    mailbox, sighting = found(sandbox, transport, token, clock, large.id)
    assert (sighting.folder, sighting.is_upload) == ("drafts", True)
    assert mailbox.remove_uploads(large.id)
    assert found(sandbox, transport, token, clock, large.id)[1] is None


@pytest.mark.parametrize("in_parts", [True, False])
def test_a_message_id_of_its_own_stays_with_a_mail_that_is_sent_a_second_time(
    control, mailer, mail, sandbox, transport, token, clock, in_parts
):
    control.configure(sent_items_delay_seconds=0)
    own = replace(mail, files=(file(),) if in_parts else (), internet_message_id="<7@erp.example>", attempt="m:1")
    control.faults("status", status=503, operation="createDraft" if in_parts else "sendMail")
    with pytest.raises(MailError):
        mailer.send(own)
    mailer.send(replace(own, tried_before=True, attempt="m:2"))
    _, sighting = found(sandbox, transport, token, clock, mail.id)
    assert (sighting.folder, sighting.internet_message_id) == ("sentitems", "<7@erp.example>")
    assert [one["rqmailId"] for one in control.accepted()] == [mail.id]
