"""What tests of the web process say to be let in."""

from __future__ import annotations

ADMIN_TOKEN = "a-token-for-tests-only"

#: Every page that is about no one thing: those of the menu, and the forecast.
PAGES = (
    "/ui/",
    "/ui/mailboxes",
    "/ui/forecast",
    "/ui/messages",
    "/ui/compose",
    "/ui/imports",
    "/ui/decisions",
    "/ui/tenants",
    "/ui/doctor",
    "/ui/tokens",
    "/ui/audit",
)
