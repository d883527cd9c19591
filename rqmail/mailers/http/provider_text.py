"""A provider's own words, made fit for an error text."""

from __future__ import annotations

from rqmail.text.scrubbing import scrubbed, without_addresses


def one_line(text: str) -> str:
    """Answer the text on one line, at most 200 characters long and without secrets and mail addresses."""
    return without_addresses(scrubbed(" ".join(text.split())))[:200]
