"""A campaign through a pause, two ``kill -9`` and a flush of Redis, its export held against the provider's record.

Run ``python -m bench.chaos_campaign``: 2,000 rows with 40 bad ones, three mailboxes, real processes on PostgreSQL. Some
mails come back, some people unsubscribe with one click: the export and the suppression list tell of exactly those.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from bench.chaos_parts import Graph, Postgres, Supervisor, Valkey, open_folder, remove_folder
from bench.system import add_mailboxes, free_port
from rqmail.bootstrap import build
from rqmail.models.base import db
from rqmail.models.migrate import migrate
from rqmail.settings import load_settings

ROWS, BAD, REPEATED = 2_000, 40, 20
PER_MINUTE, PER_DAY = 400, 10_000
_MOST_SECONDS = 600

#: Of so many people one bounces for good, one for now, and one unsubscribes: never the same.
_EVERY = 40
_HARD, _SOFT = "5.1.1", "5.2.2"

_LINK = re.compile(r'href="(http://127\.0\.0\.1[^"]+)"')


class Readers:
    """People who got the mail: some of them unsubscribe with the link in it, as soon as it is accepted."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._seen = 0
        self._links: dict[str, str] = {}
        #: Who was told that it is done.
        self.unsubscribed: set[str] = set()

    def look(self) -> None:
        """Click in what came since the last look, and again where `rqmail web` was away."""
        for mail in self._graph.control.accepted(after=self._seen, fields=("seq", "to", "body")):
            self._seen = mail["seq"]
            [address] = mail["to"]
            if _number(address) % _EVERY == 2:
                self._links[address] = _LINK.findall(mail["body"])[0]
        for address, link in list(self._links.items()):
            try:
                with urlopen(link, b"List-Unsubscribe=One-Click", timeout=5):
                    self.unsubscribed.add(address)
                    del self._links[address]
            except (URLError, OSError):
                return


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.chaos_campaign", description=__doc__)
    parser.add_argument("--seed", type=int, default=1, help="of what the provider refuses and who is killed")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    folder = open_folder()
    with ExitStack() as stack:
        valkey = Valkey()
        stack.callback(valkey.stop)
        postgres = Postgres(folder / "postgres")
        stack.callback(postgres.stop)
        graph = Graph(folder / "sandbox", arguments.seed)
        stack.callback(graph.stop)
        graph.control.configure(bounces=_bouncing())
        port = free_port()
        os.environ.update(
            {
                **graph.environment,
                "RQMAIL_DATABASE_URL": postgres.url,
                "RQMAIL_REDIS_URL": valkey.url,
                "RQMAIL_SECRET_KEY": "a key for nothing but chaos",
                "RQMAIL_WEB_URL": f"http://127.0.0.1:{port}",
                "RQMAIL_SEND_TIMEOUT_SECONDS": "4",
                "RQMAIL_UNKNOWN_GRACE_SECONDS": "30",
                "RQMAIL_PACING": "burst",
                "RQMAIL_LOG_FORMAT": "json",
            }
        )
        build(load_settings())
        stack.callback(lambda: db.obj.close_all())
        migrate()
        add_mailboxes(3, per_minute=PER_MINUTE, per_day=PER_DAY)
        db.obj.close_all()
        (folder / "list.csv").write_text(_list(random.Random(arguments.seed)))
        (folder / "mail.html").write_text(
            '<p>Dear {{ name }}, you are welcome.</p><p><a href="{{ unsubscribe_url }}">Unsubscribe</a></p>'
        )
        create = (
            "create",
            "spring",
            "--mailbox",
            "m0",
            "--mailbox",
            "m1",
            "--mailbox",
            "m2",
            "--subject",
            "Hi {{ name }}",
        )
        create += ("--html-file", str(folder / "mail.html"), "--recipients", str(folder / "list.csv"))
        create += ("--unsubscribe",)
        refused = _run(*create, expected=2)
        made = _run(*create, "--skip-invalid")
        _run("start", "spring")
        commands = {f"worker-{n}": ("worker",) for n in (1, 2)} | {"scheduler": ("scheduler",)}
        commands["web"] = ("web", "--port", str(port))
        supervisor = Supervisor(commands, os.environ, folder)
        stack.callback(supervisor.stop)
        dice = random.Random(arguments.seed)
        graph.control.faults("accept-then-504", count=None, probability=0.02, seed=arguments.seed, operation="sendMail")
        acts = {
            5.0: lambda: supervisor.kill_one(dice),
            12.0: lambda: _run("pause", "spring"),
            20.0: lambda: _run("resume", "spring"),
            25.0: valkey.flush,
            32.0: lambda: supervisor.kill_one(dice),
            60.0: graph.behave,
        }
        readers = Readers(graph)
        began, told = time.monotonic(), {}
        while (passed := time.monotonic() - began) < _MOST_SECONDS:
            supervisor.look_after()
            for moment in [one for one in acts if one <= passed]:
                acts.pop(moment)()
            if int(passed) % 5 == 0:
                readers.look()
                told = _run("status", "spring")
                done, back = f"{told['sent']} of {told['recipients']}", f"{told['bounced']} bounced"
                left = f"{len(readers.unsubscribed)} unsubscribed"
                print(f"{passed:4.0f} s  {told['state']}, {done}, {back}, {left}", file=sys.stderr)
                # Reports come after the mail, and are looked for less often where none came.
                if told["state"] == "DONE" and told["bounced"] >= len(_bouncing()):
                    break
                time.sleep(1)
            time.sleep(0.05)
        supervisor.stop()
        accepted = Counter(address for one in graph.control.accepted(fields=("to",)) for address in one["to"])
        exported = list(csv.DictReader(io.StringIO(_command("campaign", "export", "spring").lstrip("\ufeff"))))
        sent = {one["address"] for one in exported if one["status"] == "SENT"}
        bounced = {one["address"]: one["bounced"] for one in exported if one["bounced"]}
        unsubscribed = {one["address"] for one in exported if one["unsubscribedOn"]}
        kept = json.loads(_command("suppression", "list", "--limit", "10000", "--json"))["suppressions"]
        record = {address: code for address, code in _bouncing().items() if address in accepted}
        hard = {address: "hard-bounce" for address, code in record.items() if code == _HARD}
        verdict = {
            "badRowsNamed": len(refused["errors"]),
            "duplicates": made["duplicates"],
            "recipients": made["recipients"],
            "state": told.get("state"),
            "accepted": sum(accepted.values()),
            "twice": sum(1 for number in accepted.values() if number > 1),
            "exportedSent": len(sent),
            "bounced": len(bounced),
            "unsubscribed": len(unsubscribed),
            "suppressed": len(kept),
            "acceptedAreTheRecord": sent == set(accepted),
            "bouncedAreTheRecord": bounced == record,
            "unsubscribedAreTheRecord": unsubscribed == readers.unsubscribed,
            "suppressedAreTheHardBouncesAndTheUnsubscribed": {one["address"]: one["reason"] for one in kept}
            == hard | dict.fromkeys(readers.unsubscribed, "unsubscribe"),
            "seconds": round(time.monotonic() - began),
        }
        everybody = ROWS - BAD - REPEATED
        passed_all = (
            verdict["badRowsNamed"] == BAD
            and verdict["recipients"] == verdict["accepted"] == verdict["exportedSent"] == everybody
            and not verdict["twice"]
            and len(record) == len(_bouncing())
            and verdict["unsubscribed"] == sum(1 for number in range(everybody) if number % _EVERY == 2)
            and all(value for name, value in verdict.items() if name.endswith(("Record", "Unsubscribed")))
            and verdict["state"] == "DONE"
        )
        print(
            json.dumps(verdict) if arguments.json else "\n".join(f"{name}: {value}" for name, value in verdict.items())
        )
        print("passed" if passed_all else f"FAILED, the logs are in {folder}", file=sys.stderr)
    if passed_all:
        remove_folder(folder)
    return 0 if passed_all else 1


def _list(dice: random.Random) -> str:
    """Write a list with bad and repeated rows somewhere among the good ones."""
    rows = [f"person{n}@example.org,Name {n}" for n in range(ROWS - BAD - REPEATED)]
    for number in range(BAD):
        rows.insert(dice.randrange(len(rows)), f"nobody{number},Bad")
    rows += [f"PERSON{n}@example.org,Again" for n in range(REPEATED)]
    return "\n".join(["to,name", *rows]) + "\n"


def _number(address: str) -> int:
    return int(address.partition("@")[0].removeprefix("person"))


def _bouncing() -> dict[str, str]:
    """Answer who bounces, and with which code."""
    codes = {0: _HARD, 1: _SOFT}
    people = range(ROWS - BAD - REPEATED)
    return {f"person{n}@example.org": codes[n % _EVERY] for n in people if n % _EVERY in codes}


def _command(*arguments: str, expected: int = 0) -> str:
    done = subprocess.run([sys.executable, "-m", "rqmail.cli", *arguments], capture_output=True, text=True, timeout=120)
    if done.returncode != expected:
        raise RuntimeError(f"{arguments}: {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _run(*arguments: str, expected: int = 0) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_command("campaign", *arguments, "--json", expected=expected))
    return told


if __name__ == "__main__":
    sys.exit(main())
