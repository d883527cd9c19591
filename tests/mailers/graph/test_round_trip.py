"""What we write is read by Microsoft's own models, and a mail in MIME form by Python's reader, as it was meant."""

from __future__ import annotations

import base64
import email
import email.policy
import hashlib
import json
import warnings
from email.message import EmailMessage
from io import BytesIO

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rqmail.mailers.base import Address, Mail, MailFile
from rqmail.mailers.graph.message import ID_HEADER, ID_PROPERTY, encode_message, internet_message_id, request_size
from rqmail.mailers.graph.raw import as_request

with warnings.catch_warnings():  # the SDK warns of its own imports
    warnings.simplefilter("ignore", DeprecationWarning)
    from kiota_serialization_json.json_parse_node_factory import JsonParseNodeFactory
    from msgraph.generated.models.file_attachment import FileAttachment
    from msgraph.generated.models.message import Message

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

#: Letters of many scripts, signs beyond the first plane, marks of direction; no control characters, no halves of signs.
letters = st.characters(exclude_categories=("Cs", "Cc"))
texts = st.text(letters, max_size=30)
bodies = st.text(st.one_of(letters, st.sampled_from('\n\t"\\</&')), max_size=100)
addresses = st.builds(Address, st.from_regex(r"[a-z0-9.+_-]{1,20}@[a-z0-9]{1,12}\.example", fullmatch=True), texts)
people = st.lists(addresses, max_size=4).map(tuple)
names = st.from_regex(r"(?:[Xx]-)?[A-Za-z][A-Za-z0-9-]{0,20}", fullmatch=True).filter(
    lambda name: name.lower() != ID_HEADER
)


def file_of(name: str, kind: str, content: bytes, content_id: str | None) -> MailFile:
    hashed = hashlib.sha256(content).hexdigest()
    return MailFile(name, kind, len(content), hashed, lambda: BytesIO(content), content_id is not None, content_id)


files = st.lists(
    st.builds(
        file_of,
        texts.filter(str.strip),
        st.sampled_from(["application/pdf", "image/png", "text/plain"]),
        st.binary(max_size=2_000),
        st.one_of(st.none(), st.from_regex(r"[a-z0-9]{1,8}@x", fullmatch=True)),
    ),
    max_size=4,
).map(tuple)
mails = st.builds(
    Mail,
    id=st.uuids().map(str),
    subject=texts,
    to=st.lists(addresses, min_size=1, max_size=4).map(tuple),
    cc=people,
    bcc=people,
    text=st.one_of(st.none(), bodies),
    html=st.one_of(st.none(), bodies),
    headers=st.dictionaries(names, texts, max_size=8),
    files=files,
    reply_to=people,
    importance=st.sampled_from(["low", "normal", "high"]),
    read_receipt=st.booleans(),
    delivery_receipt=st.booleans(),
    from_=st.one_of(st.none(), addresses),
    copied=st.booleans(),
)
quietly = settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def told(recipients) -> list[tuple[str, str]]:
    return [(one.email_address.address, one.email_address.name or "") for one in recipients or []]


def meant(addresses) -> list[tuple[str, str]]:
    return [(one.address, one.name) for one in addresses]


@quietly
@given(mails)
def test_microsofts_models_read_every_mail_as_it_was_meant_and_nothing_is_left_over(mail):
    written = encode_message(mail)
    request = json.loads(written)
    assert request.keys() == {"message", "saveToSentItems"}
    assert request["saveToSentItems"] is mail.copied
    message = json.dumps(request["message"]).encode()
    read = JsonParseNodeFactory().get_root_parse_node("application/json", message).get_object_value(Message)
    assert read.additional_data == {}
    assert read.subject == mail.subject
    assert (read.body.content_type.value, read.body.content) == (
        ("html", mail.html) if mail.html is not None else ("text", mail.text or "")
    )
    assert (told(read.to_recipients), told(read.cc_recipients), told(read.bcc_recipients), told(read.reply_to)) == (
        meant(mail.to),
        meant(mail.cc),
        meant(mail.bcc),
        meant(mail.reply_to),
    )
    assert told([read.from_] if read.from_ else []) == (meant([mail.from_]) if mail.from_ else [])
    assert (read.importance.value if read.importance else "normal") == mail.importance
    assert bool(read.is_read_receipt_requested) is mail.read_receipt
    assert bool(read.is_delivery_receipt_requested) is mail.delivery_receipt
    carried = [(one.name, one.value) for one in read.internet_message_headers]
    named = {one.id: one.value for one in read.single_value_extended_properties}
    assert len(carried) <= 5
    assert (carried[0], named[ID_PROPERTY]) == ((ID_HEADER, mail.id), mail.id)
    assert len(carried) + len(named) == len(mail.headers) + 2
    for name, value in mail.headers.items():
        assert (name, value) in carried or value in named.values()
    attachments = read.attachments or []
    assert all(isinstance(one, FileAttachment) and one.additional_data == {} for one in attachments)
    assert [
        (one.name, one.content_type, one.content_bytes, bool(one.is_inline), one.content_id) for one in attachments
    ] == [(one.name, one.content_type, one.read(), one.is_inline, one.content_id) for one in mail.files]
    assert request_size(mail) == len(written)


@quietly
@given(st.uuids().map(str))
def test_a_mail_without_our_property_has_the_message_id_by_which_it_is_found(message_id):
    wanted = internet_message_id(message_id, "News@Contoso.Example ")
    mail = Mail(message_id, "x", (Address("a@x.nl"),), text="x", internet_message_id=wanted, marked=False)
    read = json.loads(encode_message(mail))["message"]
    assert read["internetMessageId"] == wanted == f"<{message_id}@contoso.example>"
    assert read["singleValueExtendedProperties"] == []


@quietly
@given(
    st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp")), max_size=200),
    bodies,
    st.lists(st.tuples(texts, st.binary(max_size=1_000)), max_size=3),
    st.sampled_from(["\n", "\r\n"]),
    st.sampled_from([email.policy.default, email.policy.default.clone(utf8=True)]),
)
def test_a_mail_in_mime_form_is_read_as_it_was_before_but_for_its_bcc(subject, body, attached, line_end, policy):
    written = EmailMessage(policy=policy.clone(linesep=line_end))
    written["Bcc"] = "Zo\u00eb <secret@x.nl>, " + ", ".join(f"more{number}@x.nl" for number in range(20))
    written["Subject"] = subject
    written["To"] = "a@x.nl"
    written.set_content(body)
    for name, content in attached:
        written.add_attachment(content, maintype="application", subtype="octet-stream", filename=name or "x")
    sent = base64.b64decode(as_request(written.as_bytes(), "m-1"))
    before, after = (email.message_from_bytes(one, policy=email.policy.default) for one in (written.as_bytes(), sent))
    assert after["bcc"] is None
    assert b"secret@x.nl" not in sent
    assert [(name, str(value)) for name, value in after.items()] == [
        ("x-rqmail-id", "m-1"),
        *[(name, str(value)) for name, value in before.items() if name != "Bcc"],
    ]
    for one, other in zip(before.walk(), after.walk(), strict=True):
        assert one.get_content_type() == other.get_content_type()
        if not one.is_multipart():
            read = [part.get_payload(decode=True).replace(b"\r\n", b"\n") for part in (one, other)]
            assert read[0] == read[1]
