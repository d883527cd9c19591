"""A tick is asked for when mail has come in, few enough of them to be nobody's load."""

from __future__ import annotations

import threading
from collections.abc import Callable

from rqmail.logs import event_log

log = event_log()

#: When a tick had just been asked for, it may have looked before this mail was there: so it is asked for once more.
_AGAIN_SECONDS = 0.12


def _in_a_thread(seconds: float, work: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, work)
    timer.daemon = True  # what it is for, the next poll finds as well
    timer.start()


class Nudger:
    """Asks for a tick now, or a moment later where one was asked for just before; never for two at a time.

    ``ask`` says whether it was taken: ticks that are asked for keep a distance, over all processes.
    """

    def __init__(
        self, ask: Callable[[], bool], later: Callable[[float, Callable[[], None]], None] = _in_a_thread
    ) -> None:
        self._ask = ask
        self._later = later
        self._lock = threading.Lock()
        self._is_waiting = threading.Event()

    def __call__(self) -> None:
        """Ask, unless it is asked in a moment anyhow; raises what ``ask`` raises."""
        if self._is_waiting.is_set() or self._ask():
            return
        with self._lock:
            if self._is_waiting.is_set():
                return
            self._is_waiting.set()
        self._later(_AGAIN_SECONDS, self._once_more)

    def _once_more(self) -> None:
        with self._lock:
            self._is_waiting.clear()
        try:
            self._ask()  # refused again, somebody else asked after this mail was there
        except Exception as error:  # noqa: BLE001 - the next poll finds the mail
            log.warning("intake.nudgeFailed", err=type(error).__name__)
