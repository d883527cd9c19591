"""What tests of the web process say to be let in."""

from __future__ import annotations

ADMIN_TOKEN = "a-token-for-tests-only"
