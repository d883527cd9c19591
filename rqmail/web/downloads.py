"""Attached files on their way to a browser: to be saved, and never shown by it."""

from __future__ import annotations

from flask import Response, send_file

from rqmail.administration.messages import AttachmentView
from rqmail.web.context import application


def as_download(file: AttachmentView) -> Response:
    """Answer the bytes of a file, a piece at a time; whatever is in it, no browser runs it as a page of ours."""
    answer = send_file(
        application().contents.open(file.sha256),
        mimetype=file.content_type,
        as_attachment=True,
        download_name=file.name,
    )
    answer.content_length = file.size
    answer.headers["X-Content-Type-Options"] = "nosniff"
    answer.headers["Content-Security-Policy"] = "sandbox"
    return answer
