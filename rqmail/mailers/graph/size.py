"""The most one request to Graph may be, and one part of an upload."""

from __future__ import annotations

#: The most Graph takes in one write request.
LARGEST_REQUEST = 4 * 1024 * 1024

#: One range of an upload: below that, and a multiple of 320 KiB, as Graph wants it.
RANGE_BYTES = 12 * 320 * 1024
