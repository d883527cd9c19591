"""A real headless Chromium, driven by Playwright; it is Debian's, nothing is downloaded."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

_QUIET = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser for as long as the block lasts; skips where none is installed, unless CI=true says it must be."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        if os.environ.get("CI") == "true":
            raise RuntimeError("no Chromium here, and CI=true says that there must be one (Debian: chromium)")
        pytest.skip("no Chromium here: the pages are not looked at in a browser (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_QUIET))
        try:
            yield browser
        finally:
            browser.close()
