"""Many mailboxes and many undecided messages in a real browser: what a person does with them."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from rqmail.bootstrap import Application
from rqmail.models.base import pooled_connection
from rqmail.models.message import MessageStatus
from support.clock import MovableClock
from support.messages import message_in, new_message, reloaded, submitted
from web.asking import PAGES
from web.pages.crowded import MAILBOXES, UNDECIDED, crowd

LONG_WORD = "Donaudampfschifffahrtsgesellschaft" * 12

#: What stands out of the box it belongs to or is cut off by it, on the page that is shown.
STANDS_OUT = """() => {
  const found = [];
  const name = (one) => `${one.tagName.toLowerCase()}.${one.className} ${one.textContent.trim().slice(0, 40)}`;
  const boxes = ".top, .top > *, .rows td, .rows th, .card, .tile, .facts dd, .filters label";
  for (const box of document.querySelectorAll(boxes)) {
    const isHidden = getComputedStyle(box.closest("thead") ?? box).position === "absolute";
    if (isHidden || box.closest(".hidden, [popover]")) continue;
    const edge = box.getBoundingClientRect();
    if (edge.width === 0) continue;
    const isCut = box.scrollWidth > box.clientWidth + 1 && getComputedStyle(box).overflowX !== "visible";
    if (isCut) found.push(`cut: ${name(box)}`);
    for (const one of box.querySelectorAll("*")) {
      const place = one.getBoundingClientRect();
      if (place.width === 0 || one.tagName === "OPTION") continue;
      if (one.closest(".hidden, [popover], pre, .rows") !== box.closest(".rows")) continue;
      if (place.right > edge.right + 1 || place.left < edge.left - 1) found.push(`out: ${name(one)} of ${name(box)}`);
    }
  }
  const whole = document.documentElement;
  if (whole.scrollWidth > whole.clientWidth) found.push("the page is wider than its window");
  const brand = document.querySelector(".brand");
  if (brand.getClientRects().length && brand.offsetHeight > 40) found.push("brand: in two lines");
  return found;
}"""


def overlap(one: Locator, other: Locator) -> bool:
    a, b = one.bounding_box(), other.bounding_box()
    assert a is not None
    assert b is not None
    across = a["x"] < b["x"] + b["width"] and b["x"] < a["x"] + a["width"]
    return across and a["y"] < b["y"] + b["height"] and b["y"] < a["y"] + a["height"]


def test_a_refused_limit_is_in_sight_in_the_list_as_it_was(page: Page, application: Application) -> None:
    for number in range(60):
        application.mailboxes.add(f"m{number:03}", f"box{number:03}@x.nl")
        application.mailboxes.add(f"other{number:03}", f"o{number:03}@x.nl")
    page.goto("/ui/mailboxes?q=box")
    field = page.get_by_label("Grens per Minuut van m047")
    field.fill("-5")
    with page.expect_response(lambda answer: answer.request.method == "POST"):
        field.press("Enter")
    expect(page.get_by_label("Zoeken")).to_have_value("box")
    expect(page.get_by_role("row", name=re.compile("^other"))).to_have_count(0)
    expect(field).to_be_focused()
    expect(field).to_be_in_viewport()
    expect(page.locator("#m-m047-rateLimitPerMinute-wrong")).to_be_in_viewport()
    page.goto(page.url)
    expect(page).to_have_url(re.compile(r"/ui/mailboxes\?q=box(#m-m047)?$"))
    expect(page.get_by_label("Grens per Minuut van m047")).to_have_value("")


@pytest.mark.parametrize("width", [360, 1280])
def test_a_long_word_in_a_subject_covers_no_button_and_widens_no_page(page: Page, width: int) -> None:
    with pooled_connection():
        undecided = message_in(MessageStatus.UNKNOWN, subject=LONG_WORD, last_error=LONG_WORD).id
        submitted(new_message("mailbox:news", subject=LONG_WORD))
    page.set_viewport_size({"width": width, "height": 800})
    for path in ("/ui/decisions", f"/ui/messages/{undecided}"):
        page.goto(path)
        title = page.get_by_role("heading", name=LONG_WORD)
        for name in ("Is verzonden", "Opnieuw verzenden", "Wegdoen"):
            assert not overlap(title, page.get_by_role("button", name=name, exact=True)), (path, name)
    for path in ("/ui/decisions", f"/ui/messages/{undecided}", "/ui/messages"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0, path


def test_a_group_is_decided_with_the_keyboard_alone(page: Page, clock: MovableClock) -> None:
    lost = clock().replace(second=0)
    with pooled_connection():
        ids = [
            message_in(MessageStatus.UNKNOWN, subject=f"Mail {n}", attempted_on=lost, last_error="HTTP 504").id
            for n in range(36)
        ]
        message_in(MessageStatus.UNKNOWN, subject="Later", attempted_on=lost + timedelta(minutes=9))
    page.goto("/ui/decisions")
    expect(page.get_by_role("button", name="Deze 36 zijn verzonden")).to_be_visible()
    page.get_by_text("Berichten en bewijs").focus()
    page.keyboard.press("Enter")
    page.get_by_label("Kies Mail 35").focus()
    page.keyboard.press("Space")
    page.keyboard.press("ArrowDown")
    expect(page.get_by_label("Kies Mail 34")).to_be_focused()
    page.keyboard.press("Space")
    confirm = page.get_by_role("button", name="Deze 34 zijn verzonden")
    confirm.focus()
    page.keyboard.press("Enter")
    box = page.get_by_role("dialog")
    expect(box.get_by_role("heading")).to_have_text("Deze 34 zijn verzonden")
    expect(box).to_contain_text("Dit kan niet ongedaan worden gemaakt.")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("34 berichten gelden als verzonden.")
    expect(page).to_have_url(re.compile(r"/ui/decisions(#.*)?$"))
    expect(page.get_by_role("button", name="Deze 2 zijn verzonden")).to_be_visible()
    with pooled_connection():
        assert {reloaded(one).status for one in ids[:34]} == {MessageStatus.SENT}
        assert {reloaded(one).status for one in ids[34:]} == {MessageStatus.UNKNOWN}


def test_a_large_installation_is_shown_whole_and_fits(
    page: Page, application: Application, clock: MovableClock
) -> None:
    crowd(application, clock)
    page.goto("/ui/mailboxes")
    expect(page.get_by_role("heading", level=1)).to_contain_text(str(MAILBOXES))
    page.goto("/ui/decisions")
    expect(page.get_by_role("heading", level=1)).to_contain_text(str(UNDECIDED))
    assert page.get_by_role("article").count() < UNDECIDED / 3
    assert page.evaluate("document.documentElement.scrollHeight") < 3000
    page.goto("/ui/")
    assert page.locator(".problems > li").count() <= 8
    application.redis.delete("rq:workers")  # nobody delivers: the longest that can be said of a mailbox
    for width in (1280, 1024, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for path in (*PAGES, "/ui/mailboxes/nieuws", "/ui/tenants/gemeente-aalst"):
            page.goto(path)
            assert page.evaluate(STANDS_OUT) == [], (width, path)


def test_a_phone_shows_every_entry_of_the_menu_and_every_page_names_the_zone(page: Page) -> None:
    page.set_viewport_size({"width": 360, "height": 740})
    page.goto("/ui/")
    for entry in page.get_by_role("navigation", name="Pagina's").get_by_role("link").all():
        expect(entry).to_be_in_viewport(ratio=1)
    for path in PAGES:
        page.goto(path)
        expect(page.locator("footer")).to_contain_text("Europe/Amsterdam")


def test_a_tenant_shows_only_the_fields_of_the_chosen_provider_with_and_without_a_script(
    page: Page, browser: Browser, address: str, application: Application
) -> None:
    application.tenants.add("acme", "sendgrid", sendgrid_from="a@acme.nl")
    state = page.context.storage_state()
    with browser.new_context(base_url=address, java_script_enabled=False, storage_state=state, locale="nl-NL") as plain:
        for one in (page, plain.new_page()):
            one.goto("/ui/tenants/acme")
            expect(one.get_by_label("Afzenderadres")).to_be_visible()
            expect(one.get_by_label("Directory-id (tenant)")).to_be_hidden()
            one.get_by_label("Provider").select_option("Microsoft Graph")
            expect(one.get_by_label("Directory-id (tenant)")).to_be_visible()
            expect(one.get_by_label("Afzenderadres")).to_be_hidden()
            one.get_by_label("Provider").select_option("De standaardafzender")
            expect(one.get_by_label("Adres", exact=True)).to_be_hidden()
