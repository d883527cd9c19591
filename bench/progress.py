"""What is going on, told while it lasts."""

from __future__ import annotations

import sys
import time

_began = time.monotonic()


def tell(text: str) -> None:
    """Print one line to stderr, with the minutes since the start."""
    minutes, seconds = divmod(int(time.monotonic() - _began), 60)
    print(f"{minutes:3d}:{seconds:02d}  {text}", file=sys.stderr, flush=True)
