"""What files cost: mails with a PDF of 20 KB each against the same without, and mails of 9 MB against bare uploads.

Graph answers at once, and every database write is included. The bare loop makes the same calls for each mail (a draft,
an upload session, its ranges, the send) with ``requests`` in one thread, out of memory.
"""

from __future__ import annotations

import os
import time

import requests

from bench.progress import tell
from bench.rounds import in_turns
from bench.row import Row
from bench.system import System, add_mailboxes, system
from rqmail.bootstrap import Application
from rqmail.clock import utc_now
from rqmail.intake.attachments import Attachment
from rqmail.intake.draft import Draft
from rqmail.mailers.graph.upload_session import RANGE_BYTES
from rqmail.models.message import Message

NAME = "files"
MAILBOXES = 40
SMALL, LARGE = 20_000, 9_000_000


def run(quick: bool) -> list[Row]:
    """Send both kinds through one ``rqmail worker``, in turns with their references."""
    small, large, rounds = (80, 4, 1) if quick else (1_600, 40, 3)
    with system("sqlite" if quick else "postgresql") as parts:
        app = parts.application()
        senders = add_mailboxes(MAILBOXES, per_minute=1_000_000, per_day=10_000_000)
        parts.workers(1)
        _sent(parts, app, senders, MAILBOXES, 0)  # connections, token
        with_pdf = in_turns(
            rounds, lambda: _sent(parts, app, senders, small, SMALL), lambda: _sent(parts, app, senders, small, 0)
        )
        uploads = in_turns(
            rounds, lambda: _sent(parts, app, senders, large, LARGE), lambda: _bare_uploads(parts, large)
        )
    return [
        Row.judged(
            NAME, "mails a second with a PDF of 20 KB each", with_pdf.ours, "per second", reference=with_pdf.reference,
            ratio=with_pdf.ratio, at_least=0.8,
            note=f"against the same without; 0 ms a call, {small} mails, {rounds} rounds",
        ),
        Row.judged(
            NAME, "mails a second of 9 MB each", uploads.ours, "per second", reference=uploads.reference,
            ratio=uploads.ratio, at_least=0.8,
            note=f"against a bare loop of the same calls; 0 ms a call, {large} mails, {rounds} rounds",
        ),
    ]  # fmt: skip


def _sent(parts: System, app: Application, senders: list[str], mails: int, size: int) -> float:
    tell(f"{NAME}: {mails} mails with {size:,} bytes each")
    parts.sink(forget=True, latency=0)
    checks = app.intake.checks()
    messages = [
        checks.check(
            Draft(
                senders[number % len(senders)],
                f"Factuur {number}",
                to=f"a{number}@example.com",
                html="<p>Zie de bijlage.</p>" * 100,
                attachments=[Attachment(f"factuur-{number}.pdf", os.urandom(size))] if size else (),
            )
        ).message
        for number in range(mails)
    ]
    app.intake.keep_files(messages)
    Message.submit(messages, utc_now())
    began = parts.sink()["now"]
    app.dispatcher.tick()
    return float(mails / (parts.wait_for(mails, 300)["lastAt"] - began))


def _bare_uploads(parts: System, mails: int) -> float:
    tell(f"{NAME}: {mails} bare uploads")
    content = os.urandom(LARGE)
    base = f"{parts.environment['RQMAIL_GRAPH_BASE_URL']}/users/bare@contoso.example/messages"
    headers = {"Authorization": "Bearer none"}
    with requests.Session() as session:
        session.trust_env = False
        began = time.perf_counter()
        for _ in range(mails):
            draft = session.post(base, json={"subject": "Factuur"}, headers=headers).json()["id"]
            item = {"AttachmentItem": {"attachmentType": "file", "name": "factuur.pdf", "size": LARGE}}
            opened = session.post(f"{base}/{draft}/attachments/createUploadSession", json=item, headers=headers)
            for at in range(0, LARGE, RANGE_BYTES):
                piece = content[at : at + RANGE_BYTES]
                told = {"Content-Range": f"bytes {at}-{at + len(piece) - 1}/{LARGE}"}
                answer = session.put(opened.json()["uploadUrl"], data=piece, headers=told)
            if answer.status_code != 201 or session.post(f"{base}/{draft}/send", headers=headers).status_code != 202:
                raise RuntimeError(f"the sink answered {answer.status_code}")
        return mails / (time.perf_counter() - began)
