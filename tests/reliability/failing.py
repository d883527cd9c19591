"""A process in which everything fails that can, with secrets planted everywhere; what it writes is read by a test.

What people and programs are shown goes to standard output, a JSON object by place; the log goes to standard error.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
import zlib
from contextlib import suppress
from typing import Any

from prometheus_client import CONTENT_TYPE_LATEST
from rq import Queue, SimpleWorker
from rq.serializers import JSONSerializer

from rqmail import bootstrap
from rqmail.administration.audit import COMMAND_LINE
from rqmail.intake.draft import Draft
from rqmail.mailers.http.transport import Transport
from rqmail.models.base import db, pooled_connection
from rqmail.queues import MailJob
from rqmail.sandbox.client import SandboxControl
from rqmail.web import create_app

#: How a faulty provider, proxy or library of ours repeats what it was given.
REPEATED = (
    "Invalid header value b'Bearer {token}' from {secret}; to {address}; key {key}; {pem}; "
    "{line}; AUTH PLAIN {basic}; Cookie: rqmail={cookie}"
)


def main(planted: dict[str, str], sandbox: dict[str, str]) -> None:
    """Make everything fail, and print what is shown of it."""
    app = bootstrap.application()
    control = SandboxControl(sandbox["authority"], sandbox["ca_file"])
    control.reset()
    shown: dict[str, Any] = {}
    changes = app.changes.by(COMMAND_LINE)
    app.mailboxes.add("news", "news@contoso.example")
    changes.add_tenant(
        "acme",
        provider="microsoft-graph",
        address="acme@contoso.example",
        graph_tenant_id="66666666-7777-4888-8999-aaaaaaaaaaaa",
        graph_client_id="66666666-7777-4888-8999-bbbbbbbbbbbb",
        graph_client_secret=planted["tenant secret"],
    )
    changes.add_tenant(
        "grid", provider="sendgrid", sendgrid_api_key=planted["tenant key"], sendgrid_from="grid@contoso.example"
    )
    web = create_app(app, trusted_hosts=["localhost"])
    text = REPEATED.format(
        token=planted["token"],
        secret=planted["client secret"],
        address=planted["recipient"],
        key=planted["sendgrid key"],
        pem=planted["private key"],
        line=planted["line of a key"],
        basic=planted["name and password"],
        cookie=planted["cookie"],
    )
    raising(web, text)
    for fault in faults(text):
        control.faults(**fault)
        for sender in ("mailbox:news", "tenant:acme", "tenant:grid", "default"):
            app.intake.submit(Draft(sender, "s", planted["recipient"], text="t"))
        app.mailboxes.resume("news")
        sends(app)
    failing_transport(text)
    app.intake.submit(Draft("mailbox:news", "s", planted["recipient"], text="t"))
    sends(app)
    failing_job(app, text)
    app.recovery.run()
    shown["rows"] = rows()
    shown["redis"] = everything_in(app)
    client = web.test_client()
    client.environ_base["HTTP_AUTHORIZATION"] = f"Bearer {planted['admin token']}"
    shown["error pages"] = [
        client.get("/ui/boom").text,
        client.get("/admin/boom").text,
        client.post("/messages", data=f'{{"to": "{text}"'.encode("latin-1"), content_type="application/json").text,
        client.put("/admin/tenants/acme", json={"graphClientSecret": text + "\n" + text}).text,
        client.get("/admin/audit", headers={"Authorization": f"Bearer {planted['token']}"}).text,
    ]
    shown["answers"] = [
        client.get(path).text
        for path in ("/admin/status", "/admin/tenants", "/admin/tokens", "/admin/audit", "/healthz", "/readyz")
    ]
    shown["metrics"] = client.get("/metrics", headers={"Accept": CONTENT_TYPE_LATEST}).text
    shown["doctor"] = [[one.name, str(one.text), str(one.advice)] for one in app.checkup.everything()]
    print(json.dumps(shown))
    # Nobody catches this one.
    raise RuntimeError(text)


def faults(text: str) -> tuple[dict[str, Any], ...]:
    """Answer what goes wrong at Microsoft's side, which repeats what it was given in every kind of answer."""
    return (
        {"kind": "status", "operation": "sendMail", "status": 400, "code": "ErrorX", "message": text},
        {"kind": "status", "operation": "sendMail", "status": 500, "body": text},
        {"kind": "html", "operation": "sendMail", "status": 502},
        {"kind": "reset", "operation": "sendMail"},
        {"kind": "accept-then-504"},
        {"kind": "status", "operation": "sendMail", "status": 403, "code": "ErrorAccessDenied", "message": text},
        {
            "kind": "status",
            "target": "token",
            "status": 400,
            "body": json.dumps({"error": "x", "error_description": text}),
        },
    )


def sends(app: bootstrap.Application) -> None:
    """Dispatch what is due and work it off, as a worker does."""
    app.senders.forget()
    app.dispatcher.tick()
    work(app)


def work(app: bootstrap.Application) -> None:
    """Be RQ's own worker until the queues are empty."""
    queues = [
        Queue(name, connection=app.redis, job_class=MailJob, serializer=JSONSerializer)
        for name in ("mail-high", "mail")
    ]
    worker = SimpleWorker(queues, connection=app.redis, job_class=MailJob, serializer=JSONSerializer)
    worker.work(burst=True, logging_level="INFO", with_scheduler=False)


def failing_transport(text: str) -> None:
    """Let every request fail inside a library, with the headers in the text."""

    def request(*_: object, **__: object) -> None:
        raise ValueError(text)

    Transport.request = request  # type: ignore[method-assign,assignment]


def failing_job(app: bootstrap.Application, text: str) -> None:
    """Let a job die in an exception of which RQ keeps the text."""
    before = bootstrap.Application.send

    def send(*_: object) -> None:
        raise KeyError(text)

    bootstrap.Application.send = send  # type: ignore[method-assign,assignment]
    app.queues.push([("doomed", ["01a23882-1758-7070-bb1b-14858a80c145"])], high=True)
    work(app)
    bootstrap.Application.send = before  # type: ignore[method-assign]


def raising(web: Any, text: str) -> None:
    """Add a page and an address for programs that are broken."""

    def boom() -> None:
        logging.getLogger("a.library").error("failed: %s", text)
        raise RuntimeError(text)

    web.add_url_rule("/ui/boom", "pages.boom", boom)
    web.add_url_rule("/admin/boom", "boom", boom)


def rows() -> list[Any]:
    """What the table keeps of what went wrong."""
    with pooled_connection():
        return [list(row) for row in db.execute_sql("SELECT status, last_error, attempt_log FROM message").fetchall()]


def everything_in(app: bootstrap.Application) -> list[str]:
    """Every value of every key; shared tokens are encrypted."""
    found = []
    for key in app.redis.scan_iter(count=1000):
        kind = app.redis.type(key)
        value: object = None
        if kind == b"hash":
            value = app.redis.hgetall(key)
        elif kind == b"string":
            value = app.redis.get(key)
        elif kind == b"list":
            value = app.redis.lrange(key, 0, -1)
        elif kind == b"zset":
            value = app.redis.zrange(key, 0, -1)
        elif kind == b"stream":
            value = app.redis.xrange(key)
        found.append(f"{key!r}: {plainly(value)}")
    return found


def plainly(value: object) -> str:
    """Unpack what RQ keeps compressed."""
    if isinstance(value, dict):
        return ", ".join(f"{plainly(name)}={plainly(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(plainly(one) for one in value)
    if isinstance(value, bytes):
        for unpacked in (
            lambda: zlib.decompress(value),
            lambda: zlib.decompress(base64.b64decode(value, validate=True)),
        ):
            with suppress(zlib.error, ValueError):
                return unpacked().decode(errors="replace")
        return value.decode(errors="replace")
    return str(value)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]), json.loads(sys.argv[2]))
