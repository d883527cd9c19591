"""As whom a client may send that says it is an address."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rqmail.administration.access import Principal
from rqmail.clock import monotonic
from rqmail.intake.senders import Sender
from rqmail.text.addresses import same_person

#: So long the senders that were read are not read again.
_SECONDS = 1.0


class AddressBook:
    """The senders by their addresses, as they were a moment ago: many mails come from few of them.

    ``read`` lists all there are; an address that is not among them has them read anew.
    """

    def __init__(self, read: Callable[[], Sequence[Sender]]) -> None:
        self._read = read
        self._by_address: dict[str, list[Sender]] = {}
        self._until = 0.0

    def find(self, address: str, principal: Principal) -> Sender | None:
        """Answer the first that has this address and is open to ``principal``."""
        found = self.known(address, principal)
        if found is None:
            self._renew()
            found = self._known(address, principal)
        return found

    def known(self, address: str, principal: Principal) -> Sender | None:
        """Answer the same, without a look at the database: ``None`` also where the senders have to be read anew."""
        return self._known(address, principal) if monotonic() < self._until else None

    def _known(self, address: str, principal: Principal) -> Sender | None:
        at = self._by_address.get(same_person(address), ())
        return next((one for one in at if principal.may_send_from(one.name)), None)

    def _renew(self) -> None:
        until = monotonic() + _SECONDS
        by_address: dict[str, list[Sender]] = {}
        for sender in self._read():
            for address in sender.addresses:
                by_address.setdefault(address, []).append(sender)
        self._by_address, self._until = by_address, until
