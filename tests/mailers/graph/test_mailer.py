"""What goes over the line to Graph, checked with Microsoft's own models, and what comes of the answer."""

from __future__ import annotations

import base64
import json
from dataclasses import fields, replace
from io import BytesIO

import pytest
from kiota_serialization_json.json_parse_node import JsonParseNode
from msgraph.generated.users.item.send_mail.send_mail_post_request_body import SendMailPostRequestBody

from mailers.servers import Script, serving
from rqmail.errors import MailAuthError, MailError, MailRejectedError, MailThrottledError, MailTransientError
from rqmail.mailers.base import Address, MailFile
from rqmail.mailers.graph import http
from rqmail.mailers.graph.http import GraphHttp, claims_demanded
from rqmail.mailers.graph.mailer import MicrosoftGraphMailer
from rqmail.mailers.graph.message import ID_PROPERTY, encode_message
from rqmail.mailers.graph.size import LARGEST_REQUEST

ACCEPTED = (202, {"request-id": "r-1", "client-request-id": "c-1", "Retry-After": "30"}, b"")
SECRET = "eyJ-a-very-secret-token"


class Tokens:
    def __init__(self):
        self.renewals = []

    def token(self):
        return SECRET

    def renewed(self, refused, claims):
        self.renewals.append((refused, claims))
        return f"{SECRET}-fresh"


@pytest.fixture
def tokens():
    return Tokens()


@pytest.fixture
def mailer_on(transport, tokens, clock):
    def build(url, address="noreply@contoso.example"):
        return MicrosoftGraphMailer(GraphHttp(transport, tokens), f"{url}/v1.0", address, clock=clock)

    return build


def as_microsoft_reads(document) -> SendMailPostRequestBody:
    """Parse a request with Microsoft's models, which spell the two names on top as the SDKs write them."""
    spelled = {name[0].upper() + name[1:]: value for name, value in document.items()}
    return JsonParseNode(spelled).get_object_value(SendMailPostRequestBody)


def parsed(mail) -> SendMailPostRequestBody:
    document = json.loads(encode_message(mail))
    assert list(document) == ["message", "saveToSentItems"]
    return as_microsoft_reads(document)


def leftovers(model):
    """Everything in a tree of Microsoft's models that they had no field for."""
    if isinstance(model, list):
        return [name for item in model for name in leftovers(item)]
    if not hasattr(model, "additional_data"):
        return []
    found = list(model.additional_data)
    for name in (field.name for field in fields(model) if field.name not in ("additional_data", "backing_store")):
        found += leftovers(getattr(model, name))
    return found


def test_microsofts_own_models_read_every_field_we_write(mail):
    request = parsed(mail)
    message = request.message

    assert leftovers(request) == []
    assert request.save_to_sent_items is True
    assert message.subject == mail.subject
    assert (message.body.content_type.value, message.body.content) == ("html", mail.html)
    assert [(r.email_address.address, r.email_address.name) for r in message.to_recipients] == [
        ("zoe@example.org", "Zoë Müller"),
        ("plain@example.org", None),
    ]
    assert [(r.email_address.address, r.email_address.name) for r in message.cc_recipients] == [
        ("cc@example.org", 'Jan "de" Vries')
    ]
    assert [r.email_address.address for r in message.bcc_recipients] == ["bcc@example.org"]
    assert [(h.name, h.value) for h in message.internet_message_headers] == [
        ("x-rqmail-id", mail.id),
        ("x-campaign", "zomer"),
    ]
    assert [(p.id, p.value) for p in message.single_value_extended_properties] == [(ID_PROPERTY, mail.id)]


def test_the_check_for_leftovers_finds_a_field_microsoft_does_not_know(mail):
    document = json.loads(encode_message(mail))
    document["message"]["toRecipients"][0]["emailAddress"]["nickname"] = "Zo"

    assert leftovers(as_microsoft_reads(document)) == ["nickname"]


def test_without_html_the_text_goes_out_as_text(mail):
    body = parsed(replace(mail, html=None)).message.body

    assert (body.content_type.value, body.content) == ("text", "Beste allemaal")


def test_a_mail_without_a_body_is_an_empty_text(mail):
    body = parsed(replace(mail, html=None, text=None)).message.body

    assert (body.content_type.value, body.content) == ("text", "")


def test_a_lone_surrogate_becomes_a_question_mark_and_the_mail_goes_out(mail):
    assert parsed(replace(mail, subject="a\ud83cb")).message.subject == "a?b"


def test_a_request_says_who_where_and_how(mail, mailer_on, tokens):
    script = Script([ACCEPTED])
    with serving(script) as url:
        receipt = mailer_on(url, " o'brien+a/b@contoso.example ").send(mail)

    asked = script.asked[0]
    assert (asked.method, asked.path) == ("POST", "/v1.0/users/o%27brien%2Ba%2Fb@contoso.example/sendMail")
    assert asked.body == encode_message(mail)
    assert asked.headers["Content-Type"] == "application/json"
    assert asked.headers["Authorization"] == f"Bearer {SECRET}"
    assert asked.headers["Prefer"] == 'IdType="ImmutableId"'
    assert asked.headers["return-client-request-id"] == "true"
    assert (receipt.status, receipt.request_id, receipt.client_request_id) == (202, "r-1", "c-1")
    assert tokens.renewals == []


def test_every_call_has_its_own_client_request_id(mail, mailer_on):
    script = Script([ACCEPTED])
    with serving(script) as url:
        for _ in range(3):
            mailer_on(url).send(mail)

    assert len({asked.headers["client-request-id"] for asked in script.asked}) == 3


def test_a_send_is_never_repeated_by_itself(mail, mailer_on):
    script = Script([(503, {"Retry-After": "1"}, b""), ACCEPTED])
    with serving(script) as url, pytest.raises(MailThrottledError):
        mailer_on(url).send(mail)

    assert len(script.asked) == 1


def test_a_401_gets_one_fresh_token(mail, mailer_on, tokens):
    script = Script([(401, {}, b""), ACCEPTED])
    with serving(script) as url:
        mailer_on(url).send(mail)

    assert [asked.headers["Authorization"] for asked in script.asked] == [f"Bearer {SECRET}", f"Bearer {SECRET}-fresh"]
    assert tokens.renewals == [(SECRET, None)]


def test_a_second_401_is_an_auth_error(mail, mailer_on):
    script = Script([(401, {}, {"error": {"code": "InvalidAuthenticationToken", "message": "no"}})])
    with serving(script) as url, pytest.raises(MailAuthError) as caught:
        mailer_on(url).send(mail)

    assert len(script.asked) == 2
    assert caught.value.code == "InvalidAuthenticationToken"


CLAIMS = '{"access_token":{"nbf":{"essential":true,"value":"1604106651"}}}'


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("padding", ["=", ""])
def test_a_claims_challenge_is_decoded_and_passed_on(mail, mailer_on, tokens, encode, padding):
    challenge = encode(CLAIMS.encode()).decode().rstrip("=" if padding == "" else "")
    header = f'Bearer realm="", error="insufficient_claims", claims="{challenge}"'
    script = Script([(401, {"WWW-Authenticate": header}, b""), ACCEPTED])
    with serving(script) as url:
        mailer_on(url).send(mail)

    assert tokens.renewals == [(SECRET, CLAIMS)]


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", 'claims="%%%"', 'claims="bm90IGpzb24="', 'claims="WzFd"', 'claims="/w=="']
)
def test_a_claims_challenge_that_cannot_be_read_is_none(header):
    assert claims_demanded(header) is None


def test_a_mail_larger_than_a_request_may_be_is_refused_here_with_its_size(mail, mailer_on):
    with pytest.raises(MailRejectedError, match=r"too large: 5,000,\d{3} bytes.*takes 4,194,304"):
        mailer_on("http://127.0.0.1:1").send(replace(mail, html="x" * (5_000_000)))


def test_a_mail_just_as_large_as_a_request_may_be_is_sent(mail, mailer_on):
    empty = len(encode_message(replace(mail, html="")))
    script = Script([ACCEPTED])
    with serving(script) as url:
        mailer_on(url).send(replace(mail, html="x" * (LARGEST_REQUEST - empty)))

    assert len(script.asked[0].body) == LARGEST_REQUEST


def test_a_header_that_does_not_begin_with_x_travels_as_a_property(mail):
    headers = {
        "List-Unsubscribe": "<https://x.nl/u>",
        "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        "References": "<1@x>",
        "X-Order": "7",
    }
    message = parsed(replace(mail, headers=headers)).message
    assert [(h.name, h.value) for h in message.internet_message_headers] == [("x-rqmail-id", mail.id), ("X-Order", "7")]
    assert [(p.id, p.value) for p in message.single_value_extended_properties] == [
        (ID_PROPERTY, mail.id),
        ("String 0x1045", "<https://x.nl/u>"),
        ("String {00020386-0000-0000-C000-000000000046} Name List-Unsubscribe-Post", "List-Unsubscribe=One-Click"),
        ("String 0x1039", "<1@x>"),
    ]


def test_microsofts_own_models_read_files_and_the_fields_few_mails_have(mail):
    files = (
        MailFile("factuur é.pdf", "application/pdf", 4, "", lambda: BytesIO(b"%PDF")),
        MailFile("logo.png", "image/png", 0, "", lambda: BytesIO(b""), is_inline=True, content_id="logo@x"),
    )
    request = parsed(
        replace(
            mail,
            files=files,
            reply_to=(Address("r@x.nl", "R"),),
            importance="high",
            read_receipt=True,
            delivery_receipt=True,
            from_=Address("team@x.nl"),
        )
    )
    message = request.message
    assert leftovers(request) == []
    assert [
        (one.name, one.content_type, one.content_bytes, one.is_inline, one.content_id) for one in message.attachments
    ] == [
        ("factuur é.pdf", "application/pdf", b"%PDF", None, None),
        ("logo.png", "image/png", b"", True, "logo@x"),
    ]
    assert [(one.email_address.address, one.email_address.name) for one in message.reply_to] == [("r@x.nl", "R")]
    assert message.from_.email_address.address == "team@x.nl"
    assert message.importance.value == "high"
    assert (message.is_read_receipt_requested, message.is_delivery_receipt_requested) == (True, True)


def test_our_own_id_cannot_be_overwritten_by_a_header_of_the_mail(mail):
    message = parsed(replace(mail, headers={"X-RQMAIL-ID": "forged"})).message

    assert [header.value for header in message.internet_message_headers] == [mail.id]


def test_no_error_of_a_send_tells_the_token_or_an_address(mail, mailer_on):
    said = {"error": {"code": "ErrorInvalidRecipients", "message": f"{SECRET[:0]}zoe@example.org is not valid"}}
    for status in (400, 401, 403, 404, 429, 500, 503, 504):
        with serving(Script([(status, {}, said)])) as url, pytest.raises(MailError) as caught:
            mailer_on(url).send(mail)
        for text in (str(caught.value), repr(caught.value)):
            assert SECRET not in text
            assert "example" not in text


def test_an_error_carries_our_own_id_where_graph_does_not_repeat_it(mail, mailer_on):
    script = Script([(400, {}, b"")])
    with serving(script) as url, pytest.raises(MailRejectedError) as caught:
        mailer_on(url).send(mail)

    assert caught.value.client_request_id == script.asked[0].headers["client-request-id"]


@pytest.mark.parametrize("slow", ["token", "renewed"])
def test_a_token_that_took_too_long_is_not_followed_by_a_send(mail, transport, monkeypatch, slow):
    seconds = [0.0]
    monkeypatch.setattr(http, "monotonic", lambda: seconds[0])

    class SlowTokens(Tokens):
        def token(self):
            seconds[0] += 31 if slow == "token" else 1
            return super().token()

        def renewed(self, refused, claims):
            seconds[0] += 31
            return super().renewed(refused, claims)

    script = Script([(401, {}, b""), ACCEPTED])
    with serving(script) as url, pytest.raises(MailTransientError, match="Nothing was sent"):
        MicrosoftGraphMailer(GraphHttp(transport, SlowTokens()), url, "a@b.example").send(mail)

    assert len(script.asked) == (0 if slow == "token" else 1)


def test_a_mail_of_which_no_copy_is_wanted_says_so_to_graph(mail):
    assert json.loads(encode_message(mail))["saveToSentItems"] is True
    assert json.loads(encode_message(replace(mail, copied=False)))["saveToSentItems"] is False


def test_headers_beyond_the_five_that_graph_takes_travel_as_properties_of_their_names(mail):
    many = {f"X-Part-{number}": f"value {number}" for number in range(7)}
    message = json.loads(encode_message(replace(mail, headers=many)))["message"]
    assert [one["name"] for one in message["internetMessageHeaders"]] == ["x-rqmail-id", *list(many)[:4]]
    assert message["singleValueExtendedProperties"][1:] == [
        {"id": f"String {{00020386-0000-0000-C000-000000000046}} Name {name}", "value": many[name]}
        for name in list(many)[4:]
    ]
