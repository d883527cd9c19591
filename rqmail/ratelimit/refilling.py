"""Tells Redis what was sent before, where it has no trustworthy counts of a mailbox."""

from __future__ import annotations

from collections.abc import Mapping

from rqmail.logs import event_log
from rqmail.ratelimit.encoding import Encoding, lease_field, state_key
from rqmail.ratelimit.history import PastCall, SendHistory, condense, since_ms
from rqmail.ratelimit.limits import RateLimits
from rqmail.ratelimit.server import Server, short

#: The clocks of the server and of this machine are one when they are no further apart.
_SAME_CLOCK_MS = 1_000

log = event_log("rqmail.ratelimit")


class Refilling:
    """Fills mailboxes' windows from a history that outlives Redis; without one they begin empty."""

    def __init__(self, server: Server, encoding: Encoding, history: SendHistory | None) -> None:
        self._server = server
        self._encoding = encoding
        self._history = history

    @property
    def is_possible(self) -> bool:
        """Whether there is a history to refill from."""
        return self._history is not None

    def refill(self, unknown: Mapping[str, tuple[RateLimits, int]]) -> bool:
        """Count what the history knows of mailboxes, each with the server's moment; answer whether all could be read.

        Of racing refills the first one counts.
        """
        if self._history is None:
            return True
        self._server.identify(unless_just_now=True)
        calls: list[tuple[int, list[bytes]]] = []
        told: list[tuple[str, int, int]] = []
        for key, (limits, now_ms) in unknown.items():
            try:
                sent = self._sent(self._history, key, now_ms)
            except Exception as error:  # noqa: BLE001 - whatever the database does, the mail goes out
                log.warning("mail.rateLimit.refillFailed", mailboxKey=key, err=short(error))
                continue
            arguments = [state_key(key), self._encoding.limits(limits, may_start=True), b"%d" % now_ms]
            for call in sent:
                lease = lease_field(call.reservation_id) if call.reservation_id else b""
                arguments += (b"%d" % call.at_ms, b"%d" % call.recipients, lease, b"%d" % call.upload_bytes)
            calls.append((1, arguments))
            told.append((key, len(sent), sum(call.recipients for call in sent)))
        if not calls:
            return False
        filled = self._server.run_many("fill", calls)
        for (key, count, recipients), first in zip(told, filled, strict=True):
            if first and count:
                log.info("mail.rateLimit.refilled", mailboxKey=key, calls=count, recipients=recipients)
        return len(calls) == len(unknown)

    def _sent(self, history: SendHistory, key: str, now_ms: int) -> list[PastCall]:
        """Ask the history in the time of this machine, and answer in the server's, where they are apart."""
        here_ms = self._encoding.now_ms()
        shift_ms = now_ms - here_ms if abs(now_ms - here_ms) > _SAME_CLOCK_MS else 0
        return condense(history(key, since_ms(now_ms - shift_ms), now_ms - shift_ms), now_ms, shift_ms)
