"""What is set on the pages: limits that hold for a while, what Exchange allows, what an edit leaves behind."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from rqmail.mailers.base import Checked
from rqmail.mailers.checking import SenderChecker
from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import takes_no_property
from rqmail.models.message import MessageStatus
from rqmail.models.pruning import SentPruning
from support.messages import message_in, new_message, submitted


def test_limits_until_tonight_are_until_tonight_where_the_viewer_is(admin, application, news, clock):
    clock.set(datetime(2026, 3, 10, 22, 30, tzinfo=UTC))
    for zone, ends in (("", datetime(2026, 3, 11)), ("Europe/Amsterdam", datetime(2026, 3, 10, 23))):  # noqa: DTZ001
        given = {"rateLimitPerMinute": "28", "holds": "tonight", "zone": zone, "from": "mailbox"}
        assert admin.send(f"/ui/mailboxes/{news}/limits", given).status_code == 303
        assert application.mailboxes.get(news).limits_until == ends.replace(tzinfo=UTC)
        assert "they go back to 25 / 9,000 by themselves" in admin.look(f"/ui/mailboxes/{news}")
        admin.send(f"/ui/mailboxes/{news}/limits", {"rateLimitPerMinute": "", "holds": "good", "from": "mailbox"})
        assert application.mailboxes.get(news).limits_until is None


def test_limits_until_a_date_hold_through_it_and_are_shown_as_they_were_set(admin, application, news):
    given = {"rateLimitPerMinute": "28", "holds": "date", "limitsUntil": "2026-03-12", "from": "mailbox"}
    assert admin.send(f"/ui/mailboxes/{news}/limits", given).status_code == 303
    assert application.mailboxes.get(news).limits_until == datetime(2026, 3, 13, tzinfo=UTC)
    assert re.search(r'name="limitsUntil"[^>]*value="2026-03-12"', admin.look(f"/ui/mailboxes/{news}"))


@pytest.mark.parametrize("day", ["", "gisteren", "2026-03-09", "2030-01-01"])
def test_a_day_that_is_over_or_too_far_away_is_refused_beside_its_field(admin, application, news, day):
    given = {"rateLimitPerMinute": "28", "holds": "date", "limitsUntil": day, "from": "mailbox"}
    refused = admin.send(f"/ui/mailboxes/{news}/limits", given)
    assert refused.status_code == 400
    assert "A day that is not over yet, at most a year away." in refused.text
    assert application.mailboxes.get(news).rate_limit_per_minute is None


def test_a_row_of_the_list_changes_nothing_about_how_long_limits_hold(admin, application, news, clock):
    until = clock() + timedelta(hours=5)
    application.mailboxes.set(news, rate_limit_per_minute=28, limits_until=until)
    admin.send(f"/ui/mailboxes/{news}/limits", {"rateLimitPerMinute": "20"})
    assert application.mailboxes.get(news).limits_until == until


def test_what_becomes_of_copies_in_sent_items_is_set_on_the_page_and_pruning_tells_why_it_is_paused(
    admin, application, news, clock
):
    refused = admin.send(f"/ui/mailboxes/{news}/sent-items", {"sentItems": "prune", "pruneAfterDays": ""})
    assert refused.status_code == 400
    assert "A whole number of days from 1 to 3,650" in refused.text
    admin.send(f"/ui/mailboxes/{news}/sent-items", {"sentItems": "prune", "pruneAfterDays": "30"})
    assert application.mailboxes.get(news).sent_items == "prune"
    SentPruning.note(news, next_on=clock(), pruned_on=clock(), removed=1234, problem="Mail.ReadWrite is missing")
    page = admin.look(f"/ui/mailboxes/{news}")
    assert "1,234 copies removed so far" in page
    assert "Mail.ReadWrite is missing" in page
    admin.send(f"/ui/mailboxes/{news}/sent-items", {"sentItems": "none", "pruneAfterDays": ""})
    assert "a lost answer cannot be looked up" in admin.look(f"/ui/mailboxes/{news}")


def test_the_list_tells_what_a_mailbox_has_of_its_own_where_that_is_not_the_default(admin, application, news):
    def own() -> str:
        found = re.search(
            rf'<p class="small muted" id="m-{news}-own">(.*?)</p>', admin.look("/ui/mailboxes"), re.DOTALL
        )
        return found[1].strip() if found else ""

    assert own() == ""
    change = application.changes.by("test").set_mailbox
    change(news, sent_items="none")
    assert own() == "Sent Items: no copies."
    change(news, sent_items="prune", prune_after_days=30, max_message_bytes=2_000_000)
    assert own() == "A message may have 2 MB. Sent Items: our copies are removed after 30 days."


@pytest.mark.parametrize("typed", ["0", "many", "-5", "999999999999"])
def test_how_large_a_message_may_be_is_set_on_the_page_and_emptied_for_the_default(admin, application, news, typed):
    path = f"/ui/mailboxes/{news}/message-size"
    refused = admin.send(path, {"maxMessageBytes": typed})
    assert refused.status_code == 400
    assert "A whole number of bytes" in refused.text
    assert f'value="{typed}"' in refused.text
    admin.send(path, {"maxMessageBytes": "2000000"})
    assert application.mailboxes.get(news).max_message_bytes == 2_000_000
    assert "How large a message of news may be was saved." in admin.look(f"/ui/mailboxes/{news}")
    admin.send(path, {"maxMessageBytes": ""})
    assert application.mailboxes.get(news).max_message_bytes is None


def test_limits_above_what_exchange_allows_are_saved_with_a_warning(admin, application, news):
    admin.send(f"/ui/mailboxes/{news}/limits", {"rateLimitPerMinute": "31", "rateLimitRecipientsPerDay": "10001"})
    notice = admin.notice()
    assert "allows a mailbox 30 messages a minute" in notice
    assert "allows a mailbox 10,000 recipients a day" in notice
    assert application.mailboxes.get(news).rate_limit_per_minute == 31
    admin.send(f"/ui/mailboxes/{news}/limits", {"rateLimitPerMinute": "30", "rateLimitRecipientsPerDay": "10000"})
    assert "Exchange" not in admin.notice()


def test_an_edit_of_an_address_tells_how_many_unknown_messages_depend_on_the_old_one(admin, beheerder, news):
    with pooled_connection():
        for _ in range(3):
            message_in(
                MessageStatus.UNKNOWN, sender=f"mailbox:{news}", mailbox_key="news@x.nl", provider="microsoft-graph"
            )
    admin.send(f"/ui/mailboxes/{news}/address", {"address": "new@x.nl"})
    assert "3 messages of unknown outcome went through the old settings" in admin.notice()
    admin.send(f"/ui/mailboxes/{news}/address", {"address": "news@x.nl"})
    assert "unknown outcome" not in admin.notice()
    beheerder.send(f"/ui/mailboxes/{news}/address", {"address": "newer@x.nl"})
    assert "3 berichten met onzekere afloop gingen via de oude instellingen" in beheerder.notice()


# --- one search, and to whom ------------------------------------------------------------------------------------------


def test_one_box_finds_an_address_a_subject_and_an_id_and_the_list_tells_the_first_recipient(admin, news):
    with pooled_connection():
        one, _ = submitted(
            new_message(subject="Open dag", to=("sanne@x.nl", "daan@y.nl", "noor@y.nl")),
            new_message(subject="Factuur", to=("fleur@z.nl",)),
        )
    page = admin.look("/ui/messages")
    assert re.search(r"sanne@x\.nl</span> <span[^>]*>\+2</span>", page)
    assert page.count('type="search"') == 1
    for wanted in ("sanne@x", "Y.NL", "open dag", one):
        assert re.findall(r'name="ids" value="([^"]+)"', admin.look(f"/ui/messages?q={wanted}")) == [one]
    assert 'value="sanne@x"' in admin.look("/ui/messages?q=sanne@x")


def test_a_mailbox_is_checked_from_its_page_and_the_answer_stays_on_it(admin, beheerder, application, news):
    assert "Not checked yet." in admin.look(f"/ui/mailboxes/{news}")
    assert admin.send(f"/ui/mailboxes/{news}/check", {}).status_code == 303
    notice = admin.notice()
    assert f"{news} was checked." in notice
    assert "RQMAIL_GRAPH_TENANT_ID is not set" in notice
    assert re.search("May send</dt><dd>no<", admin.look(f"/ui/mailboxes/{news}"))
    assert re.search("Mag verzenden</dt><dd>nee<", beheerder.look(f"/ui/mailboxes/{news}"))


def test_a_tenant_is_checked_from_its_page(admin, application):
    application.tenants.add("beta", "sendgrid", sendgrid_from="post@beta.nl")
    admin.send("/ui/tenants/beta/check", {})
    assert "sendgridApiKey of tenant beta is not set" in admin.look("/ui/tenants/beta")


def test_a_tenant_is_paused_and_resumed_on_its_page_and_a_refused_reason_touches_no_setting(
    admin, beheerder, application
):
    application.tenants.add("beta", "sendgrid", sendgrid_from="post@beta.nl")
    refused = beheerder.send("/ui/tenants/beta/pause", {"reason": "", "duration": "1h"})
    assert "Een reden van 1 tot 500 tekens." in refused.text
    assert 'value="post@beta.nl"' in refused.text
    assert admin.send("/ui/tenants/beta/pause", {"reason": "wrong list", "duration": "resumed"}).status_code == 303
    assert "wrong list" in admin.look("/ui/tenants/beta")
    assert admin.send("/ui/tenants/beta/resume", {}).status_code == 303
    assert application.tenants.get("beta").paused_until is None
    actions = [line.action for line in application.audit.lines()]
    assert actions == ["tenant.resume", "tenant.pause"]


def test_a_sender_whose_check_failed_is_not_just_in_order_in_the_lists(admin, application, news):
    application.tenants.add("beta", "sendgrid", sendgrid_from="post@beta.nl")
    assert "The check says: cannot send" not in admin.look("/ui/tenants") + admin.look("/ui/mailboxes")
    admin.send("/ui/tenants/beta/check", {})
    admin.send(f"/ui/mailboxes/{news}/check", {})
    assert ">OK</span>" not in admin.look("/ui/tenants")
    assert "The check says: cannot send" in admin.look("/ui/tenants")
    assert "The check says: cannot send" in admin.look("/ui/mailboxes")


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("graphTenantId", "nog geen guid", "Een GUID zoals 11111111-2222-3333-4444-555555555555, of een domein"),
        ("graphClientId", "nog-geen-guid", "Een GUID zoals 11111111-2222-3333-4444-555555555555."),
        ("graphClientId", "", "Nodig samen met het clientgeheim."),
        ("address", "", "De postbus die verzendt, nodig voor Microsoft Graph."),
    ],
)
def test_what_is_wrong_with_a_tenants_field_is_what_is_told(beheerder, field, value, told):
    right = {
        "key": "acme",
        "provider": "microsoft-graph",
        "address": "post@acme.nl",
        "graphClientId": "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902",
        "graphClientSecret": "s3cret-s3cret",
    }
    assert told in beheerder.send("/ui/tenants", {**right, field: value}).text


def test_what_a_provider_has_against_a_sender_is_told_when_it_is_saved(admin, application, monkeypatch):
    refusing = Checked(may_send=False, problem="SendGrid refuses the API key")
    monkeypatch.setattr(SenderChecker, "tenant", lambda *_: refusing)
    given = {"key": "beta", "provider": "sendgrid", "sendgridFrom": "post@beta.nl", "sendgridApiKey": "SG.key"}
    assert admin.send("/ui/tenants", given).status_code == 303
    assert "The check of beta says: SendGrid refuses the API key" in admin.notice()
    assert application.tenants.get("beta").has_sendgrid_api_key


def test_a_mailbox_that_takes_no_property_of_ours_says_so_on_its_page(admin, application, news):
    assert 'id="no-names"' not in admin.look(f"/ui/mailboxes/{news}")
    takes_no_property(application.mailboxes.get(news).address, application.clock())
    assert "looked up by header and Message-ID" in admin.look(f"/ui/mailboxes/{news}")


def test_the_limits_of_a_tenants_own_mailbox_are_typed_on_its_page(admin, application):
    application.tenants.add("acme", "microsoft-graph", address="post@acme.nl")
    form = {"provider": "microsoft-graph", "address": "post@acme.nl", "rateLimitPerMinute": "6"}
    assert admin.send("/ui/tenants/acme", form).status_code == 303
    assert application.tenants.get("acme").rate_limit_per_minute == 6
    refused = admin.send("/ui/tenants/acme", form | {"rateLimitPerMinute": "six"})
    assert "rateLimitPerMinute must be a positive whole number" in refused.text
