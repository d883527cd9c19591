"""The pages in a real browser, on a real server, a real Valkey and a real dispatcher."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from rqmail import bootstrap
from rqmail.bootstrap import Application
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message, MessageStatus
from rqmail.settings import Settings
from support.clock import MovableClock
from support.messages import message_in, new_message, reloaded, submitted
from web.asking import ADMIN_TOKEN
from web.pages.populated import populate

EVIL = "<script>document.title='broken'</script>{{7*7}}<img src=x onerror=\"document.title='broken'\">"


@pytest.fixture
def other_process(settings: Settings, application: Application, clock: MovableClock) -> Application:
    """A second application on the same database and Redis, as the scheduler's process has one."""
    del application  # built first: the database the models are bound to is then the other's
    return bootstrap.build(settings, clock)


def eventually(holds: Callable[[], bool], within: float = 5.0) -> bool:
    """Ask again until it holds: other processes see a change within a second or two."""
    deadline = time.monotonic() + within
    while not holds():
        if time.monotonic() > deadline:
            return False
    return True


def test_a_person_signs_in_and_out_with_the_keyboard_alone(context: BrowserContext) -> None:
    page = context.new_page()
    page.goto("/ui/mailboxes")
    page.keyboard.type(ADMIN_TOKEN)
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/ui/mailboxes$"))
    page.keyboard.press("Tab")
    expect(page.get_by_text("Naar de inhoud")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_be_focused()
    page.get_by_role("button", name="Afmelden").click()
    page.goto("/ui/")
    expect(page).to_have_url(re.compile("/login"))


def test_the_next_dispatch_uses_a_limit_that_was_just_changed_and_no_process_is_restarted(
    other_process: Application, page: Page, application: Application, clock: MovableClock
) -> None:
    application.mailboxes.add("nieuws", "nieuws@x.nl", rate_limit_per_minute=2, pacing="burst")
    with pooled_connection():
        submitted(*(new_message("mailbox:nieuws") for _ in range(20)))
    assert other_process.dispatcher.tick().claimed == 2

    page.goto("/ui/mailboxes")
    limit = page.get_by_label("Grens per Minuut van nieuws")
    expect(limit).to_have_value("2")
    limit.fill("9")
    page.get_by_role("button", name="Opslaan").click()
    expect(page.get_by_role("status")).to_contain_text("De grenzen van nieuws zijn opgeslagen")
    expect(page.get_by_label("Grens per Minuut van nieuws")).to_have_value("9")

    claimed = 0

    def uses_it() -> bool:
        nonlocal claimed
        claimed += other_process.dispatcher.tick().claimed
        return claimed > 0

    assert eventually(uses_it)
    assert claimed == 7  # two of the nine are in the queue already
    assert other_process.dispatcher.tick().claimed == 0


def test_what_is_no_limit_is_refused_in_dutch_beside_the_field_and_stays_typed(
    page: Page, application: Application
) -> None:
    application.mailboxes.add("nieuws", "nieuws@x.nl")
    page.goto("/ui/mailboxes")
    expect(page.get_by_label("Grens per Minuut van nieuws")).to_have_attribute("placeholder", "25")
    for label, name in (("Minuut", "rateLimitPerMinute"), ("Dag", "rateLimitRecipientsPerDay")):
        for typed in ("-1", "0", "1.5", '"25"', "true"):
            field_ = page.get_by_label(f"Grens per {label} van nieuws")
            field_.fill(typed)
            with page.expect_response(lambda answer: answer.request.method == "POST") as answered:
                field_.press("Enter")
            assert answered.value.status == 400
            expect(field_).to_have_value(typed)
            expect(field_).to_have_attribute("aria-invalid", "true")
            expect(field_).to_have_accessible_description(f"{name} moet een positief geheel getal zijn")
        page.goto("/ui/mailboxes")
    stored = application.mailboxes.get("nieuws")
    assert (stored.rate_limit_per_minute, stored.rate_limit_recipients_per_day) == (None, None)


def test_a_mailbox_is_paused_and_resumed_and_says_why_nothing_goes_out(
    other_process: Application, page: Page, application: Application
) -> None:
    application.mailboxes.add("nieuws", "nieuws@x.nl")
    with pooled_connection():
        submitted(new_message("mailbox:nieuws"))
    page.goto("/ui/mailboxes")
    page.get_by_role("button", name="Pauzeren…").click()
    box = page.get_by_role("dialog")
    box.get_by_label("Reden").fill("verkeerde lijst")
    box.get_by_label("Hoe lang").select_option("Tot iemand hervat")
    box.get_by_role("button", name="Pauzeren").click()
    row = page.get_by_role("row", name="nieuws")
    expect(row).to_contain_text("1 bericht wacht: de postbus is gepauzeerd tot iemand hervat (verkeerde lijst).")
    assert other_process.dispatcher.tick().claimed == 0
    row.get_by_role("button", name="Hervatten").click()
    expect(row).to_contain_text("In orde")
    assert eventually(lambda: other_process.dispatcher.tick().claimed == 1)


def test_an_undecided_message_is_decided_after_it_was_asked(page: Page) -> None:
    with pooled_connection():
        undecided = message_in(MessageStatus.UNKNOWN, last_error="HTTP 504").id
    page.goto("/ui/decisions")
    expect(page.get_by_role("article")).to_contain_text("HTTP 504")
    page.get_by_role("button", name="Is verzonden").click()
    expect(page.get_by_role("dialog")).to_contain_text("Dit kan niet ongedaan worden gemaakt.")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.get_by_role("button", name="Is verzonden").click()
    page.get_by_role("dialog").get_by_role("button", name="Is verzonden").click()
    expect(page.get_by_text("Niets vraagt een besluit.")).to_be_visible()
    with pooled_connection():
        assert reloaded(undecided).status == MessageStatus.SENT


def test_the_language_is_switched_and_stays(page: Page) -> None:
    expect(page.get_by_role("heading", level=1)).to_have_text("Overzicht")
    page.get_by_role("button", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.goto("/ui/audit")
    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.get_by_role("button", name="English")).to_have_attribute("aria-pressed", "true")


def test_times_are_in_the_viewers_zone_and_tell_utc_too(page: Page) -> None:
    with pooled_connection():
        [message_id] = submitted()
    page.goto(f"/ui/messages/{message_id}")
    moment = page.locator("dd time").first
    expect(moment).to_have_attribute("title", "2026-03-10 09:30 UTC")
    expect(moment).to_contain_text("10:30")


def test_many_messages_are_chosen_and_cancelled(page: Page) -> None:
    with pooled_connection():
        submitted(*(new_message(subject=f"Mail {n}") for n in range(3)))
    page.goto("/ui/messages")
    page.get_by_label("Kies alles op deze pagina").check()
    expect(page.locator("#chosen")).to_have_text("(3)")
    page.get_by_label("Kies Mail 1").uncheck()
    page.get_by_label("Acties").select_option("Annuleren")
    page.get_by_role("button", name="Verder…").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("2 berichten annuleren?")
    page.get_by_role("button", name="Annuleren").click()
    expect(page.get_by_role("status")).to_contain_text("2 berichten zijn geannuleerd.")
    with pooled_connection():
        assert [m.subject for m in Message.select().where(Message.status == "SCHEDULED")] == ["Mail 1"]


def test_what_others_wrote_never_runs(page: Page, application: Application, observed: Any) -> None:
    application.mailboxes.add("nieuws", "nieuws@x.nl")
    application.mailboxes.pause("nieuws", reason=EVIL)
    with pooled_connection():
        [message_id] = submitted(new_message("mailbox:nieuws", subject=EVIL, text=EVIL, html=EVIL))
        Message.update(last_error=EVIL, waiting_for=EVIL[:40]).where(Message.id == message_id).execute()
        message_in(MessageStatus.UNKNOWN, subject=EVIL, last_error=EVIL, mailbox_key=EVIL)
    for path in (
        "/ui/",
        "/ui/mailboxes",
        "/ui/mailboxes/nieuws",
        "/ui/messages",
        "/ui/imports",
        "/ui/decisions",
        "/ui/audit",
    ):
        page.goto(path)
        expect(page).not_to_have_title("broken")
        assert page.locator("img[src=x]").count() == 0
    page.goto("/ui/messages")
    expect(page.get_by_role("link", name=EVIL).first).to_be_visible()
    assert observed.complaints == []
    page.goto(f"/ui/messages/{message_id}")
    expect(page.locator("pre").first).to_have_text(EVIL)
    expect(page.frame_locator("iframe").locator("body")).to_contain_text("{{7*7}}")
    expect(page).not_to_have_title("broken")
    # Only the frame may have complained: that is the browser saying what it did not let the mail do.
    assert all(re.search("sandboxed|Content Security Policy", text) for text in observed.complaints)
    observed.complaints.clear()


def test_numbers_stay_fresh_while_one_looks_and_rest_while_one_does_not(
    page: Page, application: Application, observed: Any
) -> None:
    application.mailboxes.add("news", "news@x.nl")
    page.clock.install()
    page.goto("/ui/")
    queued = page.locator(".tile").filter(has_text="In de wachtrij").locator("b")
    expect(queued).to_have_text("0")
    with pooled_connection():
        submitted()
    page.clock.run_for(5_500)
    expect(queued).to_have_text("1")

    page.evaluate(
        "() => { Object.defineProperty(document, 'hidden', { configurable: true, get: () => window.away });"
        " window.away = true; document.dispatchEvent(new Event('visibilitychange')); }"
    )
    asked = len(observed.asked)
    page.clock.run_for(60_000)
    assert len(observed.asked) == asked
    with pooled_connection():
        submitted()
    page.evaluate("() => { window.away = false; document.dispatchEvent(new Event('visibilitychange')); }")
    expect(queued).to_have_text("2")


def test_fresh_numbers_do_not_take_away_where_the_keyboard_is(page: Page, application: Application) -> None:
    application.mailboxes.add("news", "news@x.nl")
    page.clock.install()
    page.goto("/ui/")
    tile = page.locator(".tile").first
    tile.focus()
    with pooled_connection():
        submitted()
    page.clock.run_for(5_500)
    expect(page.locator("#busiest")).to_contain_text("1 bericht wacht")
    expect(tile).to_be_focused()


def test_what_is_being_typed_is_not_taken_away_by_fresh_numbers(page: Page, application: Application) -> None:
    application.mailboxes.add("nieuws", "nieuws@x.nl")
    page.clock.install()
    page.goto("/ui/mailboxes")
    page.get_by_label("Grens per Minuut van nieuws").fill("12")
    with pooled_connection():
        submitted(new_message("mailbox:nieuws"))
    page.clock.run_for(5_500)
    expect(page.get_by_role("row", name="nieuws")).to_contain_text("1 bericht wacht")
    expect(page.get_by_label("Grens per Minuut van nieuws")).to_have_value("12")


def test_every_page_works_without_a_script_and_on_a_phone(
    browser: Browser, address: str, application: Application, clock: MovableClock
) -> None:
    shown = populate(application, clock)
    with browser.new_context(
        base_url=address, java_script_enabled=False, locale="nl-NL", viewport={"width": 360, "height": 740}
    ) as context:
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("Token").fill(ADMIN_TOKEN)
        page.get_by_role("button", name="Aanmelden").click()
        for path in ("/ui/", "/ui/mailboxes", "/ui/messages", f"/ui/messages/{shown['waiting']}", "/ui/decisions"):
            page.goto(path)
            expect(page.get_by_role("heading", level=1)).to_be_visible()
        page.goto("/ui/mailboxes")
        page.get_by_label("Grens per Minuut van info").fill("11")
        page.locator("#m-info").get_by_role("button", name="Opslaan").click()
        assert application.mailboxes.get("info").rate_limit_per_minute == 11
    with browser.new_context(base_url=address, viewport={"width": 360, "height": 740}, locale="nl-NL") as context:
        page = context.new_page()
        page.goto("/login")
        page.get_by_label("Token").fill(ADMIN_TOKEN)
        page.get_by_role("button", name="Aanmelden").click()
        for path in (
            "/ui/",
            "/ui/mailboxes",
            "/ui/mailboxes/nieuws",
            "/ui/messages",
            f"/ui/messages/{shown['waiting']}",
            "/ui/decisions",
            "/ui/tenants",
            "/ui/doctor",
            "/ui/tokens",
            "/ui/audit",
        ):
            page.goto(path)
            overflow = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert overflow <= 0, path


@pytest.mark.parametrize("zone", ["Pacific/Kiritimati", "Etc/GMT+12", "Europe/Amsterdam"])
def test_the_day_until_which_limits_hold_is_shown_as_it_was_set_in_every_zone(
    browser: Browser, address: str, application: Application, zone: str
) -> None:
    application.mailboxes.add("nieuws", "nieuws@x.nl")
    context = browser.new_context(base_url=address, locale="nl-NL", timezone_id=zone)
    page = context.new_page()
    page.goto("/ui/mailboxes/nieuws")
    page.get_by_label("Token").fill(ADMIN_TOKEN)
    page.get_by_role("button", name="Aanmelden").click()
    day = (application.clock() + timedelta(days=9)).date().isoformat()
    for _ in range(2):  # saved once more as it is shown, it stays the same day
        limits = page.locator("#limits")
        limits.locator("[name=rateLimitPerMinute]").fill("7")
        limits.locator("[name=holds][value=date]").check()
        if not limits.locator("[name=limitsUntil]").input_value():
            limits.locator("[name=limitsUntil]").fill(day)
        limits.get_by_role("button", name="Opslaan").click()
        expect(page.locator("#limits [name=limitsUntil]")).to_have_value(day)
    context.close()
