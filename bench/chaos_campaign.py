"""A campaign through a pause, two ``kill -9`` and a flush of Redis, its export held against the provider's record.

Run ``python -m bench.chaos_campaign``: 2,000 rows with 40 bad ones, three mailboxes, real processes on PostgreSQL.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from typing import Any

from bench.chaos_parts import Graph, Postgres, Supervisor, Valkey, open_folder, remove_folder
from bench.system import add_mailboxes
from rqmail.bootstrap import build
from rqmail.models.base import db
from rqmail.models.migrate import migrate
from rqmail.settings import load_settings

ROWS, BAD, REPEATED = 2_000, 40, 20
PER_MINUTE, PER_DAY = 400, 10_000
_MOST_SECONDS = 420


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
        os.environ.update(
            {
                **graph.environment,
                "RQMAIL_DATABASE_URL": postgres.url,
                "RQMAIL_REDIS_URL": valkey.url,
                "RQMAIL_SECRET_KEY": "a key for nothing but chaos",
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
        (folder / "mail.html").write_text("<p>Dear {{ name }}, you are welcome.</p>")
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
        refused = _run(*create, expected=2)
        made = _run(*create, "--skip-invalid")
        _run("start", "spring")
        commands = {f"worker-{n}": ("worker",) for n in (1, 2)} | {"scheduler": ("scheduler",)}
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
        began, told = time.monotonic(), {}
        while (passed := time.monotonic() - began) < _MOST_SECONDS:
            supervisor.look_after()
            for moment in [one for one in acts if one <= passed]:
                acts.pop(moment)()
            if int(passed) % 5 == 0:
                told = _run("status", "spring")
                print(f"{passed:4.0f} s  {told['state']}, {told['sent']} of {told['recipients']}", file=sys.stderr)
                if told["state"] == "DONE":
                    break
                time.sleep(1)
            time.sleep(0.05)
        supervisor.stop()
        accepted = Counter(address for one in graph.control.accepted(fields=("to",)) for address in one["to"])
        exported = list(csv.DictReader(io.StringIO(_command("export", "spring").lstrip("\ufeff"))))
        verdict = {
            "badRowsNamed": len(refused["errors"]),
            "duplicates": made["duplicates"],
            "recipients": made["recipients"],
            "state": told.get("state"),
            "accepted": sum(accepted.values()),
            "twice": sum(1 for number in accepted.values() if number > 1),
            "exportedSent": sum(1 for one in exported if one["status"] == "SENT"),
            "exportIsTheRecord": {one["address"] for one in exported if one["status"] == "SENT"} == set(accepted),
            "seconds": round(time.monotonic() - began),
        }
        passed_all = (
            verdict["badRowsNamed"] == BAD
            and verdict["recipients"] == ROWS - BAD - REPEATED
            and verdict["accepted"] == verdict["exportedSent"] == verdict["recipients"]
            and not verdict["twice"]
            and verdict["exportIsTheRecord"]
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


def _command(*arguments: str, expected: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "rqmail.cli", "campaign", *arguments], capture_output=True, text=True, timeout=120
    )
    if done.returncode != expected:
        raise RuntimeError(f"{arguments}: {done.returncode}: {done.stderr[-2000:]}")
    return done.stdout


def _run(*arguments: str, expected: int = 0) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(_command(*arguments, "--json", expected=expected))
    return told


if __name__ == "__main__":
    sys.exit(main())
