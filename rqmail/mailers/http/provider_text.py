"""A provider's own words, made fit for an error text."""

from __future__ import annotations

import re

_ADDRESS = re.compile(r"[^\s<>\"'(),;:]+@[^\s<>\"'(),;:]+")


def one_line(text: str) -> str:
    """Answer the text on one line, at most 200 characters long and without mail addresses."""
    return _ADDRESS.sub("<address>", " ".join(text.split()))[:200]
