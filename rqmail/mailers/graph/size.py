"""How large a mail is as a request to Graph, and the most one request may be."""

from __future__ import annotations

#: The most Graph takes in one write request.
LARGEST_REQUEST = 4 * 1024 * 1024


def as_base64(size: int) -> int:
    """Answer how many characters of base64 so many bytes become."""
    return (size + 2) // 3 * 4
