"""The most one request to Graph may be."""

from __future__ import annotations

#: The most Graph takes in one write request.
LARGEST_REQUEST = 4 * 1024 * 1024
