"""``python -m bench``: run the benches, print their rows as a table, and write them as JSON."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import (
    api,
    budget,
    campaigns,
    files,
    fleet,
    forecast,
    imports,
    lanes,
    latency,
    limiter,
    priority,
    send,
    smtp,
    startup,
    tick,
    work,
)
from bench.machine import machine
from bench.progress import tell
from bench.row import Row


def _limiter(quick: bool) -> list[Row]:
    """Measure the limiter, whose rows come as plain dictionaries."""
    return [
        Row(
            bench="limiter",
            what=f"{row['bench'].removeprefix('limiter: ')}",
            ours=row["ours"],
            reference=row["reference"],
            ratio=row["ratio"],
            target="" if row["target"] is None else f"{'≤' if 'at most' in row['note'] else '≥'} {row['target']:g}",
            unit=row["unit"],
            reached=None if row["target"] is None else row["ok"],
            note=row["note"],
        )
        for row in limiter.run(quick)
    ]


#: In the order in which they are run and shown.
BENCHES: dict[str, Callable[[bool], list[Row]]] = {
    "limiter": _limiter,
    work.NAME: work.run,
    budget.NAME: budget.run,
    tick.NAME: tick.run,
    lanes.NAME: lanes.run,
    send.NAME: send.run,
    priority.NAME: priority.run,
    latency.NAME: latency.run,
    fleet.NAME: fleet.run,
    imports.NAME: imports.run,
    forecast.NAME: forecast.run,
    campaigns.NAME: campaigns.run,
    files.NAME: files.run,
    smtp.NAME: smtp.run,
    api.NAME: api.run,
    startup.NAME: startup.run,
}


def main(arguments: list[str] | None = None) -> int:
    """Run what is asked for; answer 1 when a bench broke, 0 even where a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure rqmail against references.")
    parser.add_argument("--quick", action="store_true", help="small numbers, under a minute: whether it runs at all")
    parser.add_argument("--only", action="append", choices=list(BENCHES), metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--json", metavar="FILE", help="write the rows as JSON; - is the standard output")
    options = parser.parse_args(arguments)
    before = machine()
    rows: list[Row] = []
    broken: list[str] = []
    for name in options.only or BENCHES:
        tell(f"{name} begins")
        try:
            rows += BENCHES[name](options.quick)
        except Exception:
            traceback.print_exc()
            broken.append(name)
    result = {
        "quick": options.quick,
        "machine": before,
        "loadAfterwards": machine()["load"],
        "rows": [asdict(row) for row in rows],
        "broken": broken,
    }
    _print(rows, broken, quick=options.quick, described=before, to_stderr=options.json == "-")
    if options.json == "-":
        print(json.dumps(result, indent=2, ensure_ascii=False))
    elif options.json:
        Path(options.json).write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return 1 if broken else 0


def _print(rows: list[Row], broken: list[str], *, quick: bool, described: dict[str, Any], to_stderr: bool) -> None:
    console = Console(stderr=to_stderr, width=None if sys.stdout.isatty() else 180)
    table = Table(title="a quick run: its figures mean little" if quick else None)
    for column in ("bench", "what"):
        table.add_column(column, overflow="fold")
    for column in ("ours", "reference", "ratio", "reach"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("reached")
    table.add_column("note", overflow="fold")
    previous = ""
    for row in rows:
        if previous and row.bench != previous:
            table.add_section()
        table.add_row(
            row.bench if row.bench != previous else "",
            f"{row.what}, {row.unit}",
            _figure(row.ours),
            _figure(row.reference),
            _figure(row.ratio),
            row.target,
            {True: "yes", False: "[bold red]no[/]", None: ""}[row.reached],
            row.note,
        )
        previous = row.bench
    console.print(table)
    about = f"{described['cpu']}, {described['cores']} cores, Python {described['python']}"
    console.print(f"{about}; load at the start {described['load']}")
    for name in broken:
        console.print(f"[bold red]{name} broke[/]: see above")


def _figure(value: float | None) -> str:
    if value is None:
        return "–"
    if value >= 100 or value == int(value):
        return f"{value:,.0f}"
    return f"{value:.3g}"


if __name__ == "__main__":
    sys.exit(main())
