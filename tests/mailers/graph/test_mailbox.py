"""Finding a mail again in the mailbox it was sent from."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from mailers.servers import Script, serving
from rqmail.errors import (
    MailAuthError,
    MailboxNotReadableError,
    MailboxNotWritableError,
    MailboxUnavailableError,
    MailThrottledError,
    MailTransientError,
)
from rqmail.mailers.graph.http import GraphHttp
from rqmail.mailers.graph.mailbox import GraphMailbox, Sighting
from rqmail.mailers.graph.message import ID_PROPERTY, UPLOAD_PROPERTY

SENT = datetime(2026, 3, 1, 12, 0, 5, tzinfo=UTC)
EMPTY = (200, {}, {"value": []})


def row(at: datetime = SENT, identifier: str = "AAMk1", **more) -> dict:
    return {"id": identifier, "sentDateTime": at.isoformat().replace("+00:00", "Z"), **more}


class FixedToken:
    def token(self):
        return "token"

    def renewed(self, refused, claims):
        return "token-2"


@pytest.fixture
def asking(transport, clock):
    def run(script, question):
        with serving(script) as url:
            http = GraphHttp(transport, FixedToken())
            return question(GraphMailbox(http, f"{url}/v1.0", "noreply@contoso.example", clock=clock))

    return run


@pytest.fixture
def find(asking):
    def run(script, message_id="id-1", since=SENT - timedelta(minutes=1)):
        return asking(script, lambda mailbox: mailbox.find_sent(message_id, since))

    return run


@pytest.fixture
def remove(asking):
    return lambda script: asking(script, lambda mailbox: mailbox.remove_uploads("id-1"))


def in_folder(folder, *rows):
    def answer(asked):
        return (200, {}, {"value": list(rows)}) if f"/mailFolders/{folder}/messages" in asked.path else EMPTY

    return answer


@pytest.mark.parametrize("folder", ["sentitems", "drafts", "outbox"])
def test_a_mail_is_found_in_each_folder_it_can_be_in(find, folder):
    script = Script([in_folder(folder, row(internetMessageId="<a@b>"))])

    assert find(script) == Sighting(folder, "AAMk1", SENT, "<a@b>")


def test_the_question_is_by_our_property_and_value(find):
    script = Script([EMPTY])
    assert find(script, "it's 1") is None

    assert [urlsplit(asked.path).path.split("/")[-2] for asked in script.asked] == ["sentitems", "drafts", "outbox"]
    asked = script.asked[0]
    assert asked.method == "GET"
    assert asked.headers["Prefer"] == 'IdType="ImmutableId"'
    assert parse_qs(urlsplit(asked.path).query)["$filter"] == [
        f"singleValueExtendedProperties/any(ep: ep/id eq '{ID_PROPERTY}' and ep/value eq 'it''s 1')"
    ]
    assert "+" not in unquote(asked.path)


def test_the_search_ends_where_the_mail_is_found(find):
    script = Script([in_folder("sentitems", row())])
    find(script)

    assert len(script.asked) == 1


def test_a_mail_older_than_asked_for_is_not_the_one(find):
    assert find(Script([in_folder("sentitems", row(SENT - timedelta(hours=1)))])) is None


def test_of_several_the_newest_is_named(find):
    script = Script([in_folder("sentitems", row(identifier="old"), row(SENT + timedelta(seconds=9), "new"))])

    assert find(script).provider_message_id == "new"


def test_a_draft_without_a_sent_time_is_dated_by_its_making(find):
    made = {"id": "d", "sentDateTime": None, "createdDateTime": "2026-03-01T12:00:07Z"}

    assert find(Script([in_folder("drafts", made)])).at == SENT + timedelta(seconds=2)


def test_a_folder_that_does_not_exist_holds_nothing(find):
    missing = (404, {}, {"error": {"code": "ErrorFolderNotFound", "message": ""}})
    script = Script([EMPTY, EMPTY, missing])

    assert find(script) is None


@pytest.mark.parametrize("message", ["Access is denied.", "Access is disabled: [RAOP]"])
def test_a_mailbox_that_may_not_be_read_is_said_to_be_so(find, message):
    with pytest.raises(MailboxNotReadableError, match=r"grant the app Mail\.Read") as caught:
        find(Script([(403, {"request-id": "r-1"}, {"error": {"code": "ErrorAccessDenied", "message": message}})]))

    assert (caught.value.code, caught.value.request_id) == ("ErrorAccessDenied", "r-1")
    assert not isinstance(caught.value, MailAuthError)


@pytest.mark.parametrize(
    ("status", "expected"), [(401, MailAuthError), (404, MailboxUnavailableError), (429, MailThrottledError)]
)
def test_any_other_refusal_is_the_error_it_is_when_sending(find, status, expected):
    with pytest.raises(expected):
        find(Script([(status, {}, b"")]))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        b'{"value": 7}',
        b'{"value": [7]}',
        b'{"value": [{}]}',
        b'{"value": [{"id": "a", "sentDateTime": "yesterday"}]}',
        b'{"value": [{"id": "a", "sentDateTime": "2026-03-01T12:00:00"}]}',
        json.dumps({"value": [{"id": "x" * 2_000_000}]}).encode(),
    ],
    ids=range(10),
)
def test_an_answer_that_cannot_be_read_is_no_proof_of_absence(find, body):
    with pytest.raises(MailTransientError, match="ask again later"):
        find(Script([(200, {}, body)]))


def paged(*pages):
    """Answer the pages of Sent Items one after another, each naming the next, and nothing in the other folders."""

    def answer(asked):
        if "/mailFolders/sentitems/messages" not in asked.path:
            return EMPTY
        number = int(parse_qs(urlsplit(asked.path).query).get("$skip", ["0"])[0])
        body = {"value": list(pages[min(number, len(pages) - 1)])}
        if number + 1 < len(pages):
            body["@odata.nextLink"] = (
                f"http://{asked.headers['Host']}/v1.0/users/x/mailFolders/sentitems/messages?$skip={number + 1}"
            )
        return 200, {}, body

    return answer


def test_a_mail_on_a_later_page_is_found_also_after_an_empty_one(find):
    script = Script([paged([], [row(SENT - timedelta(days=1), "old")], [], [row(identifier="mine")])])

    assert find(script).provider_message_id == "mine"
    assert len(script.asked) == 4


def test_a_list_that_never_ends_proves_nothing(find):
    with pytest.raises(MailTransientError, match="could not be read"):
        find(Script([paged(*[[]] * 100)]))


@pytest.mark.parametrize("link", ["https://elsewhere.example/v1.0/next", "ftp://x", 7, ["x"]])
def test_a_next_page_elsewhere_is_not_given_our_token(find, link):
    script = Script([(200, {}, {"value": [], "@odata.nextLink": link})])
    with pytest.raises(MailTransientError, match="could not be read"):
        find(script)
    assert len(script.asked) == 1


def upload(identifier="up"):
    """A draft as it is listed that we made to upload files to."""
    return row(identifier=identifier, singleValueExtendedProperties=[{"id": UPLOAD_PROPERTY, "value": "1"}])


def test_a_draft_made_to_upload_to_is_told_from_a_mail_that_was_accepted(find):
    assert find(Script([in_folder("drafts", upload())])) == Sighting("drafts", "up", SENT, is_upload=True)
    assert not find(Script([in_folder("drafts", upload(), row(identifier="accepted"))])).is_upload
    script = Script([EMPTY])
    find(script)
    [asked] = [one for one in script.asked if "/drafts/" in one.path]
    assert parse_qs(urlsplit(asked.path).query)["$expand"] == [
        f"singleValueExtendedProperties($filter=id eq '{UPLOAD_PROPERTY}')"
    ]


@pytest.mark.parametrize("folder", ["sentitems", "outbox"])
def test_a_mail_that_left_drafts_was_accepted_whatever_it_was_made_for(find, folder):
    elsewhere = in_folder(folder, upload("sent"))

    def answer(asked):
        return in_folder("drafts", upload())(asked) if "/drafts/" in asked.path else elsewhere(asked)

    assert find(Script([answer])) == Sighting(folder, "sent", SENT)


def in_drafts(*rows, removal=(204, {}, b"")):
    return lambda asked: removal if asked.method == "DELETE" else in_folder("drafts", *rows)(asked)


def test_drafts_made_to_upload_to_are_removed_and_no_others_by_ids_that_end_with_their_place(remove):
    script = Script([in_drafts(upload("a/b"), row(identifier="accepted"), upload("c"))])
    assert remove(script) is True
    removed = [asked.path for asked in script.asked if asked.method == "DELETE"]
    assert removed == ["/v1.0/users/noreply@contoso.example/messages/a%2Fb", removed[1]]
    assert removed[1].endswith("/messages/c")
    assert not any("Prefer" in asked.headers for asked in script.asked)


def test_a_draft_that_is_not_there_any_more_when_it_is_removed_may_have_been_sent(remove):
    gone = (404, {}, {"error": {"code": "ErrorItemNotFound", "message": ""}})
    assert remove(Script([in_drafts(upload(), removal=gone)])) is False


def test_where_drafts_may_not_be_removed_the_missing_permission_is_named(remove):
    denied = (403, {}, {"error": {"code": "ErrorAccessDenied", "message": "Access is denied."}})
    with pytest.raises(MailboxNotWritableError, match=r"Mail\.ReadWrite is missing for mails over 4 MB"):
        remove(Script([in_drafts(upload(), removal=denied)]))


@pytest.mark.parametrize(("status", "expected"), [(429, MailThrottledError), (404, MailboxUnavailableError)])
def test_any_other_refusal_of_a_removal_is_the_error_it_is_when_sending(remove, status, expected):
    with pytest.raises(expected):
        remove(Script([in_drafts(upload(), removal=(status, {}, b""))]))
