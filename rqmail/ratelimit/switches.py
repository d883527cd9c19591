"""What stops one mailbox for all workers, and what starts it again."""

from __future__ import annotations

from rqmail.ratelimit.encoding import Encoding, Why, packed, state_key
from rqmail.ratelimit.history import DAY_MS
from rqmail.ratelimit.limits import mailbox_key as key_of
from rqmail.ratelimit.server import Server

#: A pause beyond a year is a mistake in a number.
LONGEST_PAUSE_MS = 366 * DAY_MS


class Switches:
    """Pauses, backing off, rejections in a row, resuming, resetting; with Redis failing none of them does anything."""

    def __init__(self, server: Server, encoding: Encoding) -> None:
        self._server = server
        self._encoding = encoding

    def pause(self, mailbox_key: str, ms: int, why: Why) -> None:
        """Stop the mailbox for all workers for ``ms``; a longer pause that runs already stays.

        Afterwards one request at a time is let through until one is settled.
        """
        mailbox_key = key_of(mailbox_key)
        arguments = (b"%d" % max(0, min(ms, LONGEST_PAUSE_MS)), packed(why), *self._encoding.now())
        self._server.or_open(lambda: self._server.run("pause", state_key(mailbox_key), *arguments), None, mailbox_key)

    def back_off(self, mailbox_key: str, base_ms: int, max_ms: int, why: Why, granted_ms: int | None) -> int:
        """Pause the mailbox for ``base_ms``, doubled for every call in a row up to ``max_ms``; answer the ms chosen."""
        mailbox_key = key_of(mailbox_key)
        granted = b"" if granted_ms is None else b"%d" % granted_ms
        longest = min(max_ms, LONGEST_PAUSE_MS)
        arguments = (b"%d" % base_ms, b"%d" % longest, packed(why), granted, *self._encoding.now())
        return self._server.or_open(
            lambda: int(self._server.run("back_off", state_key(mailbox_key), *arguments)), base_ms, mailbox_key
        )

    def count_rejection(self, mailbox_key: str) -> int:
        """Count a message that was refused for good; answer how many there were in a row."""
        mailbox_key = key_of(mailbox_key)
        return self._server.or_open(
            lambda: int(self._server.run("count_rejection", state_key(mailbox_key))), 0, mailbox_key
        )

    def resume(self, mailbox_key: str) -> bool:
        """End the mailbox's pause and all caution after it."""
        mailbox_key = key_of(mailbox_key)
        return self._server.or_open(
            lambda: self._server.redis.hdel(state_key(mailbox_key), "pause") is not None, False, mailbox_key
        )

    def reset(self, mailbox_key: str) -> bool:
        """Forget what was counted for the mailbox, neither its pause nor what is in flight."""
        mailbox_key = key_of(mailbox_key)
        arguments = (b"%d" % (self._encoding.window == "rolling"), *self._encoding.now())
        return self._server.or_open(
            lambda: bool(self._server.run("reset", state_key(mailbox_key), *arguments)), False, mailbox_key
        )
