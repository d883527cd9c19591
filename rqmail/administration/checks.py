"""What the providers say about the senders: asked when one is saved or when somebody wants to know, and kept."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import asdict

from rqmail.clock import Clock, monotonic
from rqmail.delivery.senders import Sender, Senders
from rqmail.errors import RqmailError
from rqmail.insight.checked import CheckView, view_of
from rqmail.mailers.base import Checked
from rqmail.mailers.checking import SenderChecker
from rqmail.models.base import transaction
from rqmail.models.mailbox import SenderCheck

_AT_ONCE = 4


class Checks:
    """Asks the provider of a sender (``mailbox:KEY``, ``tenant:KEY``) whether it would send, and keeps the answer."""

    def __init__(
        self,
        senders: Senders,
        make_checker: Callable[[], SenderChecker],
        clock: Clock,
        monotonic: Callable[[], float] = monotonic,
    ) -> None:
        self._senders = senders
        self._make_checker = make_checker
        self._clock = clock
        self._monotonic = monotonic

    def check(self, sender: str) -> CheckView:
        """Ask now; takes some seconds at most, and is never an error: what went wrong is in the answer."""
        return self.check_all([sender])[sender]

    def check_all(self, senders: Iterable[str], *, within: float = math.inf) -> dict[str, CheckView]:
        """Ask about each of these senders, a few at a time, and begin with none after ``within`` seconds."""
        found = [self._senders.find(name) for name in senders]
        until = self._monotonic() + within
        with closing(self._make_checker()) as checker, ThreadPoolExecutor(_AT_ONCE) as threads:

            def ask(sender: Sender) -> Checked | None:
                return self._asked(sender, checker) if self._monotonic() < until else None

            answers = dict(zip((sender.name for sender in found), threads.map(ask, found), strict=True))
        return {name: self._keep(name, answer) for name, answer in answers.items() if answer is not None}

    def has_own_app(self) -> bool:
        """Say whether the settings name an app at all; nobody is asked."""
        with closing(self._make_checker()) as checker:
            return checker.has_own_app

    def check_own_app(self) -> Checked:
        """Ask for a token of the app of the settings; nothing is kept of it."""
        with closing(self._make_checker()) as checker:
            return checker.own_app()

    def check_saved(self, sender: str, *, ask: bool = True) -> CheckView | None:
        """Ask about what was just saved; ``None``, and nothing kept, where settings for its provider are missing.

        With ``ask`` false what was known is forgotten: it was said about what the sender was before.
        """
        if not ask:
            self.forget(sender)
            return None
        with closing(self._make_checker()) as checker:
            answer = self._asked(self._senders.find(sender), checker)
        if answer.outcome == "unconfigured":
            self.forget(sender)
            return None
        return self._keep(sender, answer)

    def forget(self, sender: str) -> None:
        """Forget what was said about a sender that has gone or is another one by now."""
        with transaction():
            SenderCheck.delete().where(SenderCheck.sender == sender).execute()

    def _asked(self, sender: Sender, checker: SenderChecker) -> Checked:
        try:
            return self._senders.check(sender, checker)
        except RqmailError as error:  # such as a stored secret that this installation's key does not open
            return Checked(may_send=False, problem=str(error))

    def _keep(self, sender: str, answer: Checked) -> CheckView:
        fields = asdict(answer)
        fields["exists_there"] = fields.pop("exists")
        row = {"sender": sender, "checked_on": self._clock(), **fields}
        with transaction():
            kept = [SenderCheck._meta.fields[name] for name in row if name != "sender"]
            SenderCheck.insert(**row).on_conflict(conflict_target=[SenderCheck.sender], preserve=kept).execute()
        return view_of(SenderCheck(**row))
