"""Creating a campaign: everything is checked before anything is stored, and nothing is sent before it starts."""

from __future__ import annotations

from datetime import timedelta

import pytest

from rqmail.errors import ConflictError, InvalidInputError, NotFoundError
from rqmail.models import campaigns
from rqmail.models.audience import CampaignRecipient
from rqmail.models.campaigns import Campaign, CampaignState
from support.clock import START


@pytest.fixture
def news(office):
    office.mailbox()
    return office


def test_a_draft_holds_everybody_once_and_nothing_is_sent(news):
    made = news.create(text="to,name\nan@x.nl,An\nbo@x.nl,Bo\nAN@x.nl,An\n")
    assert (made.rows, made.recipients, made.duplicates, made.suppressed, made.invalid) == (3, 2, 1, 0, 0)
    campaign = campaigns.find("Spring")
    assert (campaign.id, campaign.state, campaign.people) == (made.id, "DRAFT", 2)
    news.run(5)
    assert news.mails == []


def test_bad_rows_stop_the_creation_and_all_of_them_are_named(news):
    made = news.create(text="to,name\nan@x.nl,An\nnobody,Bo\n,Cy\n")
    assert made.is_refused and made.id is None
    assert [(one.row, one.column) for one in made.errors] == [(3, "to"), (4, "to")]
    assert Campaign.select().count() == CampaignRecipient.select().count() == 0


def test_bad_rows_can_be_left_out_on_demand(news):
    made = news.create(text="to,name\nan@x.nl,An\nnobody,Bo\n", skip_invalid=True)
    assert (made.recipients, made.invalid) == (1, 1)
    assert campaigns.find("Spring").people == 1


def test_a_trial_stores_nothing(news):
    assert news.create(dry_run=True).recipients == 10
    assert Campaign.select().count() == 0


def test_the_suppressed_are_counted_and_told_but_not_written_to(news):
    news.suppressed = {"p3@example.org"}
    made = news.create()
    assert (made.recipients, made.suppressed) == (9, 1)
    assert [(one.row, one.message) for one in made.suppressed_rows] == [(5, "p3@example.org")]
    news.campaigns.start("Spring")
    news.run(3)
    assert len(news.addresses()) == 9
    assert "p3@example.org" not in news.addresses()


@pytest.mark.parametrize(
    ("fields", "error", "match"),
    [
        ({"text": "to,name\na@x.nl,A\n", "html": "{{ nmae }}"}, InvalidInputError, "nmae"),
        ({"subject": "{{ name|number }}"}, InvalidInputError, "row 2"),
        ({"mailboxes": ()}, InvalidInputError, "mailbox"),
        ({"mailboxes": ("news", "none")}, NotFoundError, "none"),
        ({"name": " "}, InvalidInputError, "name"),
        ({"name": "12"}, InvalidInputError, "no number alone"),
        ({"priority": "high"}, InvalidInputError, "low or normal"),
        ({"language": "xx-yy"}, InvalidInputError, "language"),
        ({"not_within_hours": 0}, InvalidInputError, "not-within"),
        ({"expires": START - timedelta(days=1)}, InvalidInputError, "expires"),
        ({"html": "{{ unsubscribe_url }}"}, InvalidInputError, "adds links"),
        ({"reply_to": ("nobody",)}, InvalidInputError, "replyTo"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name_and_nothing_is_stored(news, fields, error, match):
    with pytest.raises(error, match=match):
        news.create(**fields)
    assert Campaign.select().count() == 0


def test_a_name_is_taken_once(news):
    news.create()
    with pytest.raises(InvalidInputError, match="no other campaign"):
        news.create()
    assert Campaign.select().count() == 1


def test_a_creation_that_was_cut_off_is_no_campaign_and_gives_its_name_back(news, clock, monkeypatch):
    monkeypatch.setattr("rqmail.models.campaigns.delete", lambda _: None)  # as when the process is killed
    monkeypatch.setattr("rqmail.models.audience.add", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        news.create()
    monkeypatch.undo()
    assert [one.state for one in Campaign.select()] == [CampaignState.CREATING]
    assert campaigns.all_campaigns() == []
    clock.advance(hours=2)
    assert news.create().id


def test_empty_fields_are_told_with_their_rows(news):
    made = news.create(text="to,name,city\nan@x.nl,,\nbo@x.nl,Bo,\n", subject="Hi")
    assert made.empty == {"name": [2]}


def test_a_preview_shows_what_one_person_gets(news):
    news.create(html="<b>{{ name }}</b>")
    shown = news.campaigns.preview("Spring", 3)
    assert (shown.address, shown.subject, shown.html) == ("p2@example.org", "Hello Name2", "<b>Name2</b>")
    for row in (0, 11):
        with pytest.raises(NotFoundError, match="row"):
            news.campaigns.preview("Spring", row)


def test_a_test_mail_goes_to_somebody_else_marked_and_is_not_counted(news):
    news.create()
    news.campaigns.test("Spring", "me@example.org", 2)
    news.run(2)
    [(_, mail)] = news.mails
    assert (mail.to[0].address, mail.subject) == ("me@example.org", "[Test] Hello Name1")
    assert mail.text == "Dear Name1 at p1@example.org"
    assert campaigns.find("Spring").state == "DRAFT"


def test_a_draft_can_be_deleted_and_a_started_campaign_cannot(news):
    news.create()
    news.campaigns.delete("Spring")
    assert CampaignRecipient.select().count() == 0
    news.create()
    news.campaigns.start("Spring")
    with pytest.raises(ConflictError, match="was started"):
        news.campaigns.delete("Spring")


def test_the_template_of_a_deleted_draft_is_not_that_of_the_next_one(news, clock):
    news.create(subject="Old")
    assert news.campaigns.preview("Spring").subject == "Old"
    news.campaigns.delete("Spring")
    clock.advance(seconds=1)
    news.create(subject="New")
    assert news.campaigns.preview("Spring").subject == "New"


def test_a_clone_is_a_draft_for_the_same_people(news):
    news.create()
    news.campaigns.start("Spring")
    news.run(2)
    clone = news.campaigns.clone("Spring", "Autumn")
    assert (clone.state, clone.people, clone.started_on) == ("DRAFT", 10, None)
    news.campaigns.start("Autumn")
    news.run(3)
    assert sorted(news.addresses()) == sorted(2 * [f"p{n}@example.org" for n in range(10)])
