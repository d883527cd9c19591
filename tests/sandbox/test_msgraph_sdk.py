"""Microsoft's own SDK speaks to the sandbox as it would to Graph."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import random
import ssl
import warnings
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from azure.identity import ClientSecretCredential

from rqmail.clock import utc_now
from sandbox.graph_client import SENDER

with warnings.catch_warnings():  # the SDK warns of its own imports
    warnings.simplefilter("ignore", DeprecationWarning)
    from kiota_abstractions.authentication import AnonymousAuthenticationProvider
    from kiota_abstractions.base_request_configuration import RequestConfiguration
    from kiota_authentication_azure.azure_identity_authentication_provider import AzureIdentityAuthenticationProvider
    from msgraph import GraphRequestAdapter, GraphServiceClient
    from msgraph.generated.models.attachment_item import AttachmentItem
    from msgraph.generated.models.attachment_type import AttachmentType
    from msgraph.generated.models.body_type import BodyType
    from msgraph.generated.models.email_address import EmailAddress
    from msgraph.generated.models.file_attachment import FileAttachment
    from msgraph.generated.models.internet_message_header import InternetMessageHeader
    from msgraph.generated.models.item_body import ItemBody
    from msgraph.generated.models.message import Message
    from msgraph.generated.models.o_data_errors.o_data_error import ODataError
    from msgraph.generated.models.recipient import Recipient
    from msgraph.generated.models.single_value_legacy_extended_property import SingleValueLegacyExtendedProperty
    from msgraph.generated.users.item.mail_folders.item.messages.messages_request_builder import MessagesRequestBuilder
    from msgraph.generated.users.item.messages.item.attachments.create_upload_session import (
        create_upload_session_post_request_body as upload,
    )
    from msgraph.generated.users.item.send_mail.send_mail_post_request_body import SendMailPostRequestBody
    from msgraph_core.tasks.large_file_upload import LargeFileUploadTask

pytestmark = [
    pytest.mark.filterwarnings("ignore:This class is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:GetQueryParameters is deprecated:DeprecationWarning"),
]
KEY = "String {66f5a359-4659-4830-9070-00047ec6ac6e} Name x-rqmail-id"


@pytest.fixture(scope="module")
def sandbox_clock():
    """The SDK looks at the machine's clock, so here the sandbox does too."""
    return utc_now


@pytest.fixture
def talk(sandbox):
    """Run a conversation with Graph, given as a function of the SDK's client."""

    def run(conversation):
        async def main():
            context = ssl.create_default_context(cafile=str(sandbox.ca_file))
            known = sandbox.directory
            with ClientSecretCredential(
                known.tenant_id,
                known.client_id,
                known.client_secret,
                authority=sandbox.authority,
                disable_instance_discovery=True,
                connection_verify=str(sandbox.ca_file),
                use_env_settings=False,
            ) as credential:
                provider = AzureIdentityAuthenticationProvider(credential, allowed_hosts=["localhost"])
                async with httpx.AsyncClient(verify=context, trust_env=False) as http:
                    adapter = GraphRequestAdapter(provider, client=http)
                    adapter.base_url = sandbox.base_url
                    return await conversation(GraphServiceClient(request_adapter=adapter))

        # In a thread of its own: the browser tests' loop may still run in this one.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(asyncio.run, main()).result()

    return run


def mail(address: str = "zoe@example.org", **changes) -> Message:
    properties = {
        "subject": "Hallo Zoë",
        "body": ItemBody(content="<p>Dag</p>", content_type=BodyType.Html),
        "to_recipients": [Recipient(email_address=EmailAddress(address=address, name="Zoë"))],
        "internet_message_headers": [InternetMessageHeader(name="x-rqmail-id", value="m-1")],
        "single_value_extended_properties": [SingleValueLegacyExtendedProperty(id=KEY, value="m-1")],
    }
    return Message(**(properties | changes))


def test_the_sdk_sends_a_mail_with_an_attachment(control, talk):
    file = FileAttachment(name="a.txt", content_type="text/plain", content_bytes=base64.b64encode(b"abc"))

    async def conversation(client):
        body = SendMailPostRequestBody(message=mail(attachments=[file]), save_to_sent_items=True)
        await client.users.by_user_id(SENDER).send_mail.post(body)

    talk(conversation)
    [taken] = control.accepted()
    assert (taken["subject"], taken["to"], taken["rqmailId"]) == ("Hallo Zoë", ["zoe@example.org"], "m-1")
    assert taken["attachments"][0]["name"] == "a.txt"


@pytest.mark.parametrize(
    ("address", "user", "code"),
    [
        ("geen-adres", SENDER, "ErrorInvalidRecipients"),
        ("zoe@example.org", "niemand", "ErrorInvalidUser"),
    ],
)
def test_the_sdk_understands_a_refusal(talk, address, user, code):
    async def conversation(client):
        await client.users.by_user_id(user).send_mail.post(SendMailPostRequestBody(message=mail(address)))

    with pytest.raises(ODataError) as refused:
        talk(conversation)
    assert refused.value.error.code == code
    assert refused.value.error.inner_error.request_id
    assert refused.value.error.inner_error.date is not None


def test_the_sdk_understands_throttling(control, talk):
    control.faults("status", status=429, headers={"Retry-After": "9"})

    async def conversation(client):
        await client.users.by_user_id(SENDER).send_mail.post(SendMailPostRequestBody(message=mail()))

    with pytest.raises(ODataError) as refused:
        talk(conversation)
    assert (refused.value.response_status_code, refused.value.error.code) == (429, "ApplicationThrottled")
    assert refused.value.response_headers["retry-after"] == "9"


def test_the_sdk_answers_a_claims_challenge_by_itself(control, talk):
    control.faults("bad-token", claims='{"access_token":{"nbf":{"essential":true,"value":"1700000000"}}}')

    async def conversation(client):
        await client.users.by_user_id(SENDER).send_mail.post(SendMailPostRequestBody(message=mail()))

    talk(conversation)
    assert control.stats()["accepted"] == 1
    assert "1700000000" in control.stats()["tokens"]["lastClaims"]


def test_the_sdk_reads_our_messages_without_a_leftover_field(talk):
    async def conversation(client):
        user = client.users.by_user_id(SENDER)
        await user.send_mail.post(SendMailPostRequestBody(message=mail(), save_to_sent_items=True))
        query = MessagesRequestBuilder.MessagesRequestBuilderGetQueryParameters(
            filter=f"singleValueExtendedProperties/any(ep: ep/id eq '{KEY}' and ep/value eq 'm-1')",
            expand=[f"singleValueExtendedProperties($filter=id eq '{KEY}')"],
        )
        wanted = RequestConfiguration(query_parameters=query)
        wanted.headers.add("Prefer", 'IdType="ImmutableId"')
        return await user.mail_folders.by_mail_folder_id("SentItems").messages.get(wanted)

    [found] = talk(conversation).value
    assert found.additional_data == {"@odata.etag": found.additional_data["@odata.etag"]}
    assert found.single_value_extended_properties[0].value == "m-1"
    assert found.sent_date_time is not None
    assert found.from_.email_address.address == SENDER
    assert found.body.content_type is BodyType.Html


def test_the_sdk_opens_an_upload_and_sends_the_draft_with_the_file(control, talk, graph):
    content = bytes(1024) * 700

    async def conversation(client):
        messages = client.users.by_user_id(SENDER).messages
        draft = await messages.post(mail())
        item = AttachmentItem(attachment_type=AttachmentType.File, name="groot.bin", size=len(content))
        session = await messages.by_message_id(draft.id).attachments.create_upload_session.post(
            upload.CreateUploadSessionPostRequestBody(attachment_item=item)
        )
        assert session.next_expected_ranges == ["0-"]
        assert session.expiration_date_time > utc_now()
        shown = {"Content-Range": f"bytes 0-{len(content) - 1}/{len(content)}"}
        assert graph.http.put(session.upload_url, data=content, headers=shown, timeout=5).status_code == 201
        await messages.by_message_id(draft.id).send.post()

    talk(conversation)
    [taken] = control.accepted()
    assert [(file["name"], file["size"]) for file in taken["attachments"]] == [("groot.bin", len(content))]


class UploadTask(LargeFileUploadTask):
    """Microsoft's task (1.5) but for two slips of its own: both fail with Exchange's answers too.

    It adds a ``-`` to the next range and trips over one without an end, and after the last range it puts one more.
    """

    @property
    def next_range(self):
        return self._next_range

    @next_range.setter
    def next_range(self, value):
        self._next_range = None if value is None else value.rstrip("-")

    async def last_chunk(self, *_):
        return None


def test_microsofts_own_upload_task_takes_a_file_through_the_sandbox_range_by_range(control, talk, sandbox):
    content = random.Random(5).randbytes(1_000_000)
    told = []

    async def conversation(client):
        messages = client.users.by_user_id(SENDER).messages
        draft = await messages.post(mail())
        item = AttachmentItem(attachment_type=AttachmentType.File, name="groot.bin", size=len(content))
        session = await messages.by_message_id(draft.id).attachments.create_upload_session.post(
            upload.CreateUploadSessionPostRequestBody(attachment_item=item)
        )
        # The upload's address is all the authorization there is: an adapter that tells our token would be refused.
        context = ssl.create_default_context(cafile=str(sandbox.ca_file))
        async with httpx.AsyncClient(verify=context, trust_env=False) as http:
            adapter = GraphRequestAdapter(AnonymousAuthenticationProvider(), client=http)
            task = UploadTask(session, adapter, io.BytesIO(content), max_chunk_size=320 * 1024)
            await task.upload(told.append)
        await messages.by_message_id(draft.id).send.post()

    talk(conversation)
    [taken] = control.accepted()
    [file] = taken["attachments"]
    assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert len(told) >= 3
