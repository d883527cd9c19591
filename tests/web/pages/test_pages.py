"""The pages without a script: what they show, what their forms do, and what they refuse."""

from __future__ import annotations

import csv
import io
import re
from datetime import timedelta

import pytest

from rqmail.models.base import pooled_connection
from rqmail.models.message import MessageStatus, RecipientKind
from rqmail.models.message import Recipient as RecipientRow
from support.messages import ATTEMPT, message_in, new_message, reloaded, submitted
from web.asking import ADMIN_TOKEN, PAGES
from web.pages.populated import populate

GUID = "5a4db0c5-7e4a-4a7e-9c1d-2b6f0a5e1c01"
NOT_FOR_READERS = ("/ui/tokens", "/ui/audit", "/ui/compose")
EVIL = "<script>alert(1)</script>{{7*7}}\"'><img src=x onerror=alert(2)>"

S = MessageStatus


def in_state(status, **fields):
    with pooled_connection():
        return message_in(status, **fields)


def state_of(message_id):
    with pooled_connection():
        return reloaded(message_id).status


# --- looking -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES)
def test_an_empty_installation_has_every_page_in_both_languages(admin, beheerder, page):
    assert '<html lang="en">' in admin.look(page)
    assert '<html lang="nl">' in beheerder.look(page)


@pytest.fixture
def shown(application, clock):
    return populate(application, clock)


def every_path(shown):
    return (
        *PAGES,
        "/ui/mailboxes/nieuws",
        "/ui/mailboxes/afspraken",
        "/ui/tenants/gemeente-aalst",
        "/ui/tenants/bakkerij-bloem",
        *(f"/ui/messages/{message_id}" for message_id in shown.values()),
    )


def test_a_busy_installation_has_every_page_in_both_languages_and_nothing_runs_in_them(admin, beheerder, shown):
    for person in (admin, beheerder):
        for path in every_path(shown):
            page = person.look(path)
            assert "{{" not in page
            assert not re.search(r"<script(?![^>]*src=\"/static/)", page)
            assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", page.split("<pre")[0])
            assert not re.search(r"(src|href|action)=\"(https?:)?//", page)


def test_ids_on_a_page_are_unique_and_every_field_has_a_label(admin, shown):
    for path in every_path(shown):
        page = admin.look(path)
        ids = re.findall(r"\sid=\"([^\"]+)\"", page)
        assert len(ids) == len(set(ids)), path
        labelled = set(re.findall(r"<label for=\"([^\"]+)\"", page))
        for field in re.findall(r"<(?:input|select)[^>]*>", page):
            name = re.search(r"\sid=\"([^\"]+)\"", field)
            hidden = 'type="hidden"' in field
            in_label = re.search(rf"<label[^>]*>(?:(?!</label>).)*{re.escape(field)}", page, re.S)
            assert hidden or "aria-label" in field or (name and name[1] in labelled) or in_label, (path, field)


def test_why_nothing_goes_out_is_one_sentence_in_the_viewers_language(admin, beheerder, shown):
    said = re.search(r'id="why"[^>]*>(.*?)</p>', admin.look("/ui/mailboxes/jaarvergadering"), re.S)[1]
    assert "31 messages wait: the day&#39;s budget is used up (500 of 500 recipients)" in said.replace("'", "&#39;")
    gezegd = re.search(r'id="why"[^>]*>(.*?)</p>', beheerder.look("/ui/mailboxes/jaarvergadering"), re.S)[1]
    assert "31 berichten wachten: het dagbudget is op (500 van 500 ontvangers)" in gezegd
    assert "gepauzeerd tot <time" in beheerder.look("/ui/mailboxes/afspraken")


def test_numbers_are_written_as_the_language_does(admin, beheerder, shown):
    assert "6,120" in admin.look("/ui/mailboxes/nieuws")
    assert "6.120" in beheerder.look("/ui/mailboxes/nieuws")


def test_a_chosen_language_outlives_what_the_browser_asks_for(beheerder):
    answer = beheerder.send("/ui/language", {"language": "en", "next": "/ui/mailboxes"})
    assert answer.headers["Location"] == "/ui/mailboxes"
    assert '<html lang="en">' in beheerder.look("/ui/")


@pytest.mark.parametrize("wanted", ["https://evil.example", "//evil.example", "/\\evil.example"])
def test_no_form_leads_to_another_site(admin, news, wanted):
    for path, fields in (
        ("/ui/language", {"language": "nl"}),
        (f"/ui/mailboxes/{news}/resume", {}),
        (f"/ui/mailboxes/{news}/limits", {}),
    ):
        answer = admin.send(path, {**fields, "next": wanted})
        assert answer.headers["Location"].startswith("/ui/")


def test_the_last_hour_is_drawn(admin, shown):
    page = admin.look("/ui/")
    assert page.count('class="reach"') == 60
    assert '<rect class="failed"' in page


def test_without_redis_the_overview_still_answers(admin, application, redis_client):
    application.limiter.health = lambda: type("Health", (), {"state": "unreachable", "text": "refused"})()
    page = admin.look("/ui/")
    assert "Redis cannot be reached: refused" in page
    assert "Redis cannot tell while it is away." in page


# --- who may -------------------------------------------------------------------------------------------------------


def test_who_is_not_signed_in_sees_no_page(anyone):
    for page in PAGES:
        assert anyone.get(page).headers["Location"].startswith("/login?next=")


def test_who_only_reads_sees_no_switch_and_moves_none(reader, application, shown):
    for page in set(PAGES) - set(NOT_FOR_READERS):
        forms = re.findall(r'<form method="post" action="([^"]+)"', reader.look(page))
        assert set(forms) <= {"/ui/language", "/logout", "/ui/messages/bulk"}
    for page in NOT_FOR_READERS:
        assert reader.client.get(page).status_code == 403
    for path in ("/ui/mailboxes", "/ui/mailboxes/nieuws/pause", "/ui/tenants", "/ui/messages/bulk", "/ui/tokens"):
        assert reader.send(path, {"reason": "x"}).status_code == 403
    assert reader.send(f"/ui/messages/{shown['unknown']}/sent", {}).status_code == 403
    assert state_of(shown["unknown"]) == S.UNKNOWN


def test_a_form_without_proof_that_it_is_ours_changes_nothing(admin, news, application):
    for proof in ({}, {"csrf_token": "made-up"}):
        answer = admin.client.post(f"/ui/mailboxes/{news}/limits", data={"rateLimitPerMinute": "3", **proof})
        assert answer.status_code == 403
    assert application.mailboxes.get(news).rate_limit_per_minute is None


def test_a_form_that_another_site_sends_changes_nothing(admin, news, application):
    admin.client.environ_base["HTTP_ORIGIN"] = "https://evil.example"
    assert admin.send(f"/ui/mailboxes/{news}/limits", {"rateLimitPerMinute": "3"}).status_code == 403


# --- mailboxes -----------------------------------------------------------------------------------------------------

NOT_A_LIMIT = ("-1", "0", "1.5", '"25"', "true", "1e3", "٢٥", "99999999999", "0x10", "25 26")


@pytest.mark.parametrize("typed", NOT_A_LIMIT)
@pytest.mark.parametrize("field", ["rateLimitPerMinute", "rateLimitRecipientsPerDay"])
def test_what_is_no_positive_whole_number_is_refused_beside_the_field_and_kept_there(
    beheerder, admin, application, news, typed, field
):
    path = f"/ui/mailboxes/{news}/limits"
    too_large = typed == "99999999999"
    for person, text in (
        (beheerder, f"{field} moet een positief geheel getal zijn" + ", hoogstens 2.147.483.647" * too_large),
        (admin, f"{field} must be a positive whole number" + ", at most 2,147,483,647" * too_large),
    ):
        for where in ({}, {"from": "mailbox"}):
            answer = person.send(path, {field: typed, **where})
            assert answer.status_code == 400
            page = answer.text
            assert f">{text}<" in page
            [field_shown] = re.findall(rf'<input[^>]*name="{field}"[^>]*aria-invalid="true"[^>]*>', page)
            assert f'value="{typed.replace(chr(34), "&#34;")}"' in field_shown
    stored = application.mailboxes.get(news)
    assert (stored.rate_limit_per_minute, stored.rate_limit_recipients_per_day) == (None, None)
    assert application.audit.lines() == []


def test_both_limits_are_told_to_be_wrong_at_once(beheerder, news):
    page = beheerder.send(f"/ui/mailboxes/{news}/limits", {"rateLimitPerMinute": "0", "rateLimitRecipientsPerDay": "x"})
    assert page.text.count("moet een positief geheel getal zijn") == 2


def test_a_limit_is_set_and_cleared_and_both_are_audited(admin, application, news):
    path = f"/ui/mailboxes/{news}/limits"
    assert admin.send(path, {"rateLimitPerMinute": " 7 ", "rateLimitRecipientsPerDay": ""}).status_code == 303
    assert "The limits of news were saved" in admin.notice()
    stored = application.mailboxes.get(news)
    assert (stored.rate_limit_per_minute, stored.rate_limit_recipients_per_day) == (7, None)
    assert 'placeholder="25"' in admin.look("/ui/mailboxes")
    assert admin.send(path, {"rateLimitPerMinute": "", "rateLimitRecipientsPerDay": "500"}).status_code == 303
    stored = application.mailboxes.get(news)
    assert (stored.rate_limit_per_minute, stored.rate_limit_recipients_per_day) == (None, 500)
    lines = application.audit.lines()
    assert [(line.who, line.action, line.subject) for line in lines] == [("admin", "mailbox.set", "mailbox:news")] * 2
    assert lines[0].before["rateLimitPerMinute"] == 7
    assert "<del>7</del>" in admin.look("/ui/audit")


def test_a_mailbox_is_added_and_what_is_wrong_stands_beside_its_field(admin, beheerder, application):
    given = {"key": "nieuws", "address": "nieuws@example.org", "rateLimitPerMinute": "12"}
    assert admin.send("/ui/mailboxes", given).status_code == 303
    assert application.mailboxes.get("nieuws").rate_limit_per_minute == 12
    again = beheerder.send("/ui/mailboxes", given)
    assert again.status_code == 400
    assert "Deze bestaat al." in again.text
    assert 'value="nieuws@example.org"' in again.text
    wrong = beheerder.send("/ui/mailboxes", {"key": "a b", "address": "x@y.nl"})
    assert "1 tot 64 letters" in wrong.text
    assert "Een mailadres, zoals" in beheerder.send("/ui/mailboxes", {"key": "ok", "address": "no"}).text


def test_a_mailbox_is_paused_with_a_reason_and_resumed(admin, application, news, clock):
    path = f"/ui/mailboxes/{news}"
    assert "A reason of 1 to 500 characters." in admin.send(f"{path}/pause", {"reason": "", "duration": "1h"}).text
    assert "One of those in the list." in admin.send(f"{path}/pause", {"reason": "x", "duration": "9y"}).text
    assert admin.send(f"{path}/pause", {"reason": "wrong list", "duration": "4h"}).status_code == 303
    paused = application.mailboxes.get(news)
    assert paused.paused_until == clock() + timedelta(hours=4)
    assert "wrong list" in admin.look(path)
    assert admin.send(f"{path}/resume", {}).status_code == 303
    assert application.mailboxes.get(news).paused_until is None
    assert admin.send(f"{path}/pause", {"reason": "for ever", "duration": "resumed"}).status_code == 303
    assert "until it is resumed" in admin.look("/ui/mailboxes")
    actions = [line.action for line in application.audit.lines()]
    assert actions == ["mailbox.pause", "mailbox.resume", "mailbox.pause"]


def test_how_often_the_limiter_denied_in_the_last_hour_is_told_by_reason(admin, beheerder, application, news, clock):
    tenant = {"key": "acme", "provider": "microsoft-graph", "address": "post@acme.example", "graphTenantId": GUID,
              "graphClientId": GUID, "graphClientSecret": "s"}  # fmt: skip
    assert admin.send("/ui/tenants", tenant).status_code == 303
    for key, reason, times in (
        ("news@x.nl", "minute", 3),
        ("news@x.nl", "day", 1),
        ("post@acme.example", "in_flight", 2),
    ):
        for _ in range(times):
            application.metrics.denied(key, reason)
    application.metrics.flush()
    assert "Denied in the last hour</dt><dd>3 for the minute, 1 for the day</dd>" in admin.look(f"/ui/mailboxes/{news}")
    assert "<dt>Geweigerd in het afgelopen uur</dt><dd>3 " in beheerder.look(f"/ui/mailboxes/{news}")
    assert "<dd>2 for too many at once</dd>" in admin.look("/ui/tenants/acme")
    clock.advance(hours=1, minutes=1)
    assert "Denied in the last hour" not in admin.look(f"/ui/mailboxes/{news}")


def test_a_reset_forgets_what_was_used(admin, application, news):
    application.limiter.check_and_reserve("news@x.nl", 40, application.overview.defaults)
    assert application.overview.mailbox(news).budget.recipients_per_day.used == 40
    assert admin.send(f"/ui/mailboxes/{news}/reset", {}).status_code == 303
    assert application.overview.mailbox(news).budget.recipients_per_day.used == 0
    assert application.audit.lines()[0].action == "mailbox.reset"


def test_a_reset_that_redis_did_not_take_is_not_called_done(admin, application, news, monkeypatch):
    monkeypatch.setattr(application.limiter, "reset", lambda key: False)
    admin.send(f"/ui/mailboxes/{news}/reset", {})
    assert "news was not reset" in admin.notice()


def test_a_mailbox_is_not_deleted_while_mail_of_it_waits(admin, beheerder, application, news):
    with pooled_connection():
        [waiting] = submitted()
    assert beheerder.send(f"/ui/mailboxes/{news}/delete", {}).headers["Location"] == f"/ui/mailboxes/{news}"
    assert "news kan niet worden verwijderd" in beheerder.notice()
    assert admin.send(f"/ui/messages/{waiting}/cancel", {}).status_code == 303
    assert admin.send(f"/ui/mailboxes/{news}/delete", {}).headers["Location"] == "/ui/mailboxes"
    assert application.mailboxes.all() == []


def test_mailboxes_are_searched_by_key_address_and_state_and_shown_by_fifties(admin, application):
    for number in range(120):
        application.mailboxes.add(f"m{number:03}", f"box{number:03}@x.nl")
    application.mailboxes.pause("m007", reason="x")
    first = admin.look("/ui/mailboxes")
    assert "1 to 50 of 120" in first
    assert "101 to 120 of 120" in admin.look("/ui/mailboxes?page=2")
    assert re.findall(r'<tr id="m-([^"]+)"', admin.look("/ui/mailboxes?q=BOX11")) == [f"m11{n}" for n in range(10)]
    assert re.findall(r'<tr id="m-([^"]+)"', admin.look("/ui/mailboxes?state=paused")) == ["m007"]
    wrong = admin.send("/ui/mailboxes/m101/limits", {"rateLimitPerMinute": "x"}).text
    assert 'id="m-m101-rateLimitPerMinute-wrong"' in wrong
    for nonsense in ("page=-1", "page=x", "page=٣", "page=99999999999", "state=odd"):
        admin.look(f"/ui/mailboxes?{nonsense}")


# --- messages ------------------------------------------------------------------------------------------------------


def lines(page):
    return re.findall(r'name="ids" value="([^"]+)"', page)


def test_messages_are_found_by_what_is_known_about_them(admin, news):
    with pooled_connection():
        one, other = submitted(
            new_message(subject="Open dag", to=("sanne@x.nl",)), new_message("default", subject="50% korting")
        )
    assert lines(admin.look("/ui/messages")) == [other, one]
    for asked, found in (
        ("subject=open", [one]),
        ("subject=50%25", [other]),
        ("recipient=SANNE@x.nl", [one]),
        ("sender=mailbox:news", [one]),
        ("status=SENT", []),
        ("status=SCHEDULED&priority=normal&from=2026-03-10&to=2026-03-10", [other, one]),
        ("from=2026-03-11", []),
        ("status=odd&priority=odd&from=odd", [other, one]),
    ):
        assert lines(admin.look(f"/ui/messages?{asked}")) == found


def test_messages_are_paged_by_cursor_and_counted_by_status(admin):
    with pooled_connection():
        ids = submitted(*(new_message() for _ in range(51)))
    in_state(S.SENT)
    first = admin.look("/ui/messages?status=SCHEDULED")
    assert lines(first) == ids[:0:-1]
    [more] = re.findall(r'href="([^"]+after=[^"]+)" rel="next"', first)
    assert lines(admin.look(more.replace("&amp;", "&"))) == [ids[0]]
    assert "Scheduled <span>51</span>" in first
    assert "Sent <span>1</span>" in first


@pytest.mark.parametrize(
    ("action", "state", "becomes"),
    [
        ("cancel", S.SCHEDULED, S.CANCELLED),
        ("requeue", S.ERROR, S.SCHEDULED),
        ("send-now", S.SCHEDULED, S.SCHEDULED),
        ("confirm-sent", S.UNKNOWN, S.SENT),
        ("resend", S.UNKNOWN, S.SCHEDULED),
        ("discard", S.UNKNOWN, S.CANCELLED),
    ],
)
def test_what_is_done_to_many_is_asked_with_their_number_first(admin, application, action, state, becomes):
    ids = [in_state(state).id for _ in range(2)]
    spared = in_state(S.SENT).id
    asked = {"action": action, "scope": "selected", "ids": [*ids, spared]}
    page = admin.send("/ui/messages/bulk", asked).text
    assert re.search(r"<h1>[^<]*\b2\b[^<]*</h1>", page)
    assert "3 messages were chosen; 2 of them" in page
    assert page.count('<li><span class="badge') == 2
    assert [state_of(one) for one in ids] == [state, state]
    assert admin.send("/ui/messages/bulk", {**asked, "sure": "yes"}).status_code == 303
    assert "2 messages" in admin.notice()
    assert [state_of(one) for one in ids] == [becomes, becomes]
    assert state_of(spared) == S.SENT
    done, begun = application.audit.lines()
    assert (begun.action, begun.before["matched"], done.after) == (f"messages.{action}", 3, {"affected": 2})


def test_what_is_done_to_many_is_asked_with_their_number_by_status_first(admin):
    ids = [in_state(state).id for state in (S.SCHEDULED, S.SCHEDULED, S.QUEUED, S.SENT)]
    page = admin.send("/ui/messages/bulk", {"action": "cancel", "scope": "selected", "ids": ids}).text
    counted = re.search(r'id="by-status">(.*?)</p>', page)[1]
    assert re.findall(r'badge (\w+)">[^<]*</span> (\d+)', counted) == [("scheduled", "2"), ("queued", "1")]
    everything = admin.send("/ui/messages/bulk", {"action": "requeue", "scope": "all", "status": "ERROR"}).text
    assert 'id="by-status"' not in everything


def test_all_that_match_is_all_that_match(admin):
    with pooled_connection():
        ids = submitted(*(new_message(subject="Campaign") for _ in range(60)))
        [other] = submitted(new_message(subject="Other"))
    asked = {"action": "cancel", "scope": "all", "subject": "campaign"}
    assert "Cancel 60 messages?" in admin.send("/ui/messages/bulk", asked).text
    admin.send("/ui/messages/bulk", {**asked, "sure": "yes"})
    assert "60 messages were cancelled." in admin.notice()
    assert {state_of(one) for one in ids} == {S.CANCELLED}
    assert state_of(other) == S.SCHEDULED


@pytest.mark.parametrize("asked", [{}, {"action": "cancel"}, {"action": "explode", "scope": "all"}])
def test_nothing_chosen_is_nothing_done(admin, asked):
    with pooled_connection():
        [waiting] = submitted()
    assert admin.send("/ui/messages/bulk", {**asked, "sure": "yes"}).status_code == 303
    assert "Choose messages first." in admin.notice()
    assert state_of(waiting) == S.SCHEDULED


def test_the_export_has_every_message_and_no_formula(admin):
    with pooled_connection():
        submitted(*(new_message(subject=text) for text in ("=1+1", "+x", "-x", "@x", "\tx", "plain, with comma")))
    answer = admin.client.get("/ui/messages/export.csv?status=SCHEDULED")
    assert answer.content_type == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text.removeprefix("\ufeff"))))
    assert [row["subject"] for row in rows] == ["plain, with comma", "'\tx", "'@x", "'-x", "'+x", "'=1+1"]
    assert rows[0]["created_on"] == "2026-03-10T09:30:20.123456Z"
    assert rows[0]["recipients"] == "reader0@example.org"


def test_the_export_begins_with_a_bom_and_takes_the_delimiter_a_spreadsheet_wants(admin):
    with pooled_connection():
        submitted(new_message(subject="Zoë; =1"))
    answer = admin.client.get("/ui/messages/export.csv?status=SCHEDULED&delimiter=;")
    assert answer.data.startswith(b"\xef\xbb\xbfid;sender;")
    [row] = csv.DictReader(io.StringIO(answer.data.decode("utf-8-sig")), delimiter=";")
    assert row["subject"] == "Zoë; '=1"
    assert admin.client.get("/ui/messages/export.csv?delimiter=x").status_code == 400


def test_the_one_box_finds_messages_in_the_list_and_in_the_export(admin):
    with pooled_connection():
        [wanted, _] = submitted(new_message(to=("zoe@example.net",)), new_message())
    for path in ("/ui/messages", "/ui/messages/export.csv"):
        text = admin.client.get(path, query_string={"q": "Zoe@example"}).text
        assert wanted in text
        assert "reader0" not in text


# --- one message, and decisions ------------------------------------------------------------------------------------


def test_a_mails_own_html_is_a_page_that_may_do_nothing(admin):
    with pooled_connection():
        [message_id] = submitted(new_message(html="<script>alert(1)</script><b>hi</b>"))
    page = admin.look(f"/ui/messages/{message_id}")
    assert f'<iframe sandbox="" src="/ui/messages/{message_id}/html"' in page
    framed = admin.client.get(f"/ui/messages/{message_id}/html")
    assert framed.text == "<script>alert(1)</script><b>hi</b>"
    policy = framed.headers["Content-Security-Policy"]
    assert policy.startswith("sandbox; default-src 'none';")
    assert "allow-" not in policy
    assert framed.headers["X-Content-Type-Options"] == "nosniff"


def test_a_message_tells_its_next_try_and_why_and_its_attempts_newest_first(admin, shown):
    page = admin.look(f"/ui/messages/{shown['waiting']}")
    assert re.search(r"next try <time[^>]*>2026-03-10 09:31 UTC</time></b> – minute budget", page)
    assert "attempt 1 of 8" in page
    assert page.index("Not sent") < page.index("Slowed down")
    assert "a3f6c0de-91b4-4a27-8a0b-6d3c2e8f4b19" in page
    assert "Jurriën" in page or "example.nl" in page


@pytest.mark.parametrize(("action", "becomes"), [("sent", S.SENT), ("resend", S.SCHEDULED), ("discard", S.CANCELLED)])
def test_an_undecided_message_is_decided_beside_its_evidence(admin, application, action, becomes):
    undecided = in_state(S.UNKNOWN, last_error="HTTP 504: may have been accepted").id
    page = admin.look("/ui/decisions")
    assert "HTTP 504: may have been accepted" in page
    assert f'action="/ui/messages/{undecided}/{action}"' in page
    answer = admin.send(f"/ui/messages/{undecided}/{action}", {"next": "/ui/decisions"})
    assert answer.headers["Location"] == "/ui/decisions"
    assert state_of(undecided) == becomes
    assert "Nothing needs a decision." in admin.look("/ui/decisions")
    assert application.audit.lines()[0].subject == f"message:{undecided}"


def test_what_came_too_late_says_so(admin):
    sent = in_state(S.SENT).id
    assert admin.send(f"/ui/messages/{sent}/cancel", {}).status_code == 303
    assert "Too late" in admin.notice()
    assert admin.send(f"/ui/messages/{sent}/explode", {}).status_code == 404
    assert admin.client.get("/ui/messages/none").status_code == 404


# --- tenants and tokens ---------------------------------------------------------------------------------------------


def test_a_secret_goes_in_and_never_comes_out(admin, application):
    given = {"key": "acme", "provider": "sendgrid", "sendgridFrom": "a@acme.nl", "sendgridApiKey": "SG.very-secret"}
    assert admin.send("/ui/tenants", given).status_code == 303
    kept = {"provider": "sendgrid", "sendgridFrom": "b@acme.nl"}
    assert admin.send("/ui/tenants/acme", kept).status_code == 303
    assert application.tenants.get("acme").has_sendgrid_api_key
    for path in ("/ui/tenants", "/ui/tenants/acme", "/ui/audit"):
        assert "very-secret" not in admin.look(path)
    wrong = admin.send("/ui/tenants/acme", {**kept, "sendgridFrom": "no", "sendgridApiKey": "SG.very-secret"})
    assert wrong.status_code == 400
    assert "very-secret" not in wrong.text
    assert admin.send("/ui/tenants/acme", {**kept, "sendgridApiKey.clear": "yes"}).status_code == 303
    assert not application.tenants.get("acme").has_sendgrid_api_key
    assert admin.send("/ui/tenants/acme/delete", {}).status_code == 303
    assert application.tenants.all() == []


def test_a_token_is_shown_once_and_lets_in_until_it_is_revoked(admin, beheerder, application):
    made = admin.send("/ui/tokens", {"name": "app", "scopes": ["send", "read"]}).text
    [token] = set(re.findall(r"rqm_[\w-]{20,}", made))
    assert token not in admin.look("/ui/tokens")
    assert application.access.authenticate(token).name == "app"
    assert admin.send("/ui/tokens/app/revoke", {}).status_code == 303
    assert application.access.authenticate(token) is None
    assert token not in admin.look("/ui/audit")
    assert "Deze bestaat al." in beheerder.send("/ui/tokens", {"name": "app", "scopes": "read"}).text
    assert "Minstens een." in beheerder.send("/ui/tokens", {"name": "b"}).text
    for day in ("gisteren", "2020-01-01"):
        given = {"name": "c", "scopes": "read", "expiresOn": day}
        assert "Een dag die nog niet voorbij is." in beheerder.send("/ui/tokens", given).text


def test_a_token_is_bound_to_mailboxes_on_the_page_and_the_list_says_so(admin, beheerder, application, news):
    application.mailboxes.add("other", "other@x.nl")
    given = {"name": "app", "scopes": "send", "mailboxes": f"{news}, other"}
    assert "only from news, other" in admin.send("/ui/tokens", given).text
    assert application.access.token("app").mailboxes == ("news", "other")
    for wrong in ({"scopes": "send", "mailboxes": "nowhere"}, {"scopes": "read", "mailboxes": news}):
        refused = beheerder.send("/ui/tokens", {"name": "app2", **wrong})
        assert "Sleutels van postbussen die bestaan" in refused.text
        assert f'value="{wrong["mailboxes"]}"' in refused.text


# --- what others wrote is text --------------------------------------------------------------------------------------


def test_what_others_wrote_is_shown_as_text_wherever_it_is_shown(admin, application, news):
    with pooled_connection():
        [message_id] = submitted(new_message(subject=EVIL, text=EVIL, html=EVIL))
        undecided = message_in(S.UNKNOWN, subject=EVIL, last_error=EVIL, mailbox_key=EVIL).id
        for kind, address in ((RecipientKind.CC, EVIL), (RecipientKind.BCC, "x@y.nl")):
            RecipientRow.create(
                message=message_id, position=7 + len(kind.value), kind=kind.value, address=address, name=EVIL
            )
        undecided_row = reloaded(undecided)
        undecided_row.claim = "claim-1"
        assert ATTEMPT.detail is None
    application.mailboxes.pause(news, reason=EVIL)
    with application.audit.change(EVIL, EVIL[:40], EVIL) as change:
        change.after = {EVIL: EVIL}
    for path in (
        "/ui/",
        "/ui/mailboxes",
        f"/ui/mailboxes/{news}",
        "/ui/messages",
        f"/ui/messages/{message_id}",
        f"/ui/messages/{undecided}",
        "/ui/decisions",
        "/ui/audit",
        "/ui/messages?subject=%3Cscript%3Ealert(1)%3C/script%3E%7B%7B7*7%7D%7D",
        "/ui/mailboxes?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
        "/ui/audit?subject=%22%3E%3Cscript%3Ealert(1)%3C/script%3E",
    ):
        page = admin.look(path)
        assert "<script>alert" not in page, path
        assert "<img src=x" not in page, path
        assert ">49" not in page, path


@pytest.mark.parametrize("field", ["key", "address"])
def test_what_is_typed_wrongly_comes_back_as_text(admin, field):
    page = admin.send("/ui/mailboxes", {"key": "ok", "address": "ok@x.nl", field: EVIL}).text
    assert "<script>alert" not in page
    assert "{{7*7}}" in page


def test_the_sign_in_page_speaks_both_languages_and_never_repeats_a_token(anyone):
    anyone.environ_base["HTTP_ACCEPT_LANGUAGE"] = "nl"
    page = anyone.get("/login").text
    proof = re.search(r'name="csrf_token" value="([^"]+)"', page)[1]
    wrong = anyone.post("/login", data={"token": "geheim-geheim", "csrf_token": proof})
    assert wrong.status_code == 401
    assert "Dit token is niet geldig." in wrong.text
    assert "geheim-geheim" not in wrong.text
    assert ADMIN_TOKEN not in wrong.text


@pytest.mark.parametrize(
    ("page", "next_step"),
    [
        ("/ui/mailboxes", "Add a mailbox above"),
        ("/ui/mailboxes?q=nobody", "Show all mailboxes"),
        ("/ui/messages", "Import a file"),
        ("/ui/messages?q=nobody", "Show all messages"),
        ("/ui/imports", "Choose a file above"),
        ("/ui/decisions", "comes here by itself"),
        ("/ui/tenants", "Add a tenant above"),
        ("/ui/tokens", "Make one for each program or person"),
        ("/ui/audit?subject=mailbox:nobody", "Show all changes"),
    ],
)
def test_an_empty_page_tells_the_next_step(admin, page, next_step):
    [empty] = re.findall(r'<p class="empty">(.*?)</p>', admin.look(page))
    assert next_step in empty


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"transport": "folder:/tmp/mail"}, "No mail leaves: it goes to folder:/tmp/mail (RQMAIL_TRANSPORT)."),
        ({"redirect_to": "me@x.nl"}, "All mail goes to me@x.nl (RQMAIL_REDIRECT_TO)."),
        ({}, None),
    ],
)
def test_every_page_says_so_while_mail_goes_elsewhere(application, web, admin, changes, told):
    application.settings = application.settings.model_copy(update=changes)
    for path in ("/ui/", "/ui/messages"):
        shown = admin.look(path)
        assert (told in shown) if told else ("RQMAIL_TRANSPORT" not in shown)
    without_signing_in = web.test_client().get("/login").text
    assert "folder:/tmp/mail" not in without_signing_in
    assert "me@x.nl" not in without_signing_in
