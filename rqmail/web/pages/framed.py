"""A mail's own HTML, for the frame it is shown in: a page of its own that may do nothing."""

from __future__ import annotations

from flask import Response

#: What it may do: look like itself. No script, no form, no request to anyone, no origin of its own.
_FRAME_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'"


def framed(html: str) -> Response:
    """Answer a mail's HTML as it is, so that it can be shown in a frame and nowhere else."""
    return Response(
        html,
        content_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": _FRAME_POLICY, "X-Frame-Options": "SAMEORIGIN"},
    )
