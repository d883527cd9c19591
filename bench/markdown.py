"""``python -m bench.markdown FILE``: a run's JSON as the table for the documentation."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from bench.row import Row


def table(rows: list[Row]) -> str:
    """Write the rows as a Markdown table."""
    lines = [
        "| bench | what | measured | reference | ratio | to reach | reached |",
        "|---|---|---:|---:|---:|---:|---|",
    ]
    for row in rows:
        note = f"<br><sub>{row.note}</sub>" if row.note else ""
        reached = {True: "yes", False: "**no**", None: ""}[row.reached]
        ratio = "" if row.ratio is None else f"{row.ratio:.2g}" if row.ratio < 0.1 else f"{row.ratio:.2f}"
        lines.append(
            f"| {row.bench} | {row.what}{note} | {_figure(row.ours)} {row.unit} | {_figure(row.reference)} | {ratio} |"
            f" {row.target} | {reached} |"
        )
    return "\n".join(lines)


def _figure(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.3g}"


if __name__ == "__main__":
    result = json.loads(Path(sys.argv[1]).read_text())
    print(table([Row(**row) for row in result["rows"]]))
    about = result["machine"]
    print(f"\n{about['cpu']}, {about['cores']} cores, {about['memory']}, {about['system']}, Python {about['python']};")
    print(f"load average at the start {about['load']}, at the end {result['loadAfterwards']}.")
    print("; ".join(f"{name} {number}" for name, number in about["versions"].items()))
