"""Unsubscribing: links that are signed and name nobody, and what a click on one does.

A link holds the id of a row (:mod:`rqmail.models.unsubscribing`) and the message or campaign it stood in, with a
signature of both. It never expires: also when the message is long deleted, whoever has it can unsubscribe.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from uuid import UUID

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rqmail.clock import Clock
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.intake.headers import one_click_headers
from rqmail.models import events, suppression, unsubscribing
from rqmail.models.base import transaction
from rqmail.models.suppression import Entry, Reason, scopes_of
from rqmail.text.addresses import same_person

#: Where ``rqmail web`` answers, below RQMAIL_WEB_URL.
PATH = "/unsubscribe"

_VERSION = 1
_NOWHERE, _MESSAGE, _CAMPAIGN = range(3)
_SIGNATURE_BYTES = 16
_STOOD_IN = {_NOWHERE: "", _MESSAGE: " of message ", _CAMPAIGN: " of campaign "}


@dataclass(frozen=True, slots=True)
class Unsubscription:
    """Who a link is for: the address, the scope in which it is to get no mail, and what the link stood in."""

    address: str
    scope: str
    source: str
    message_id: str | None = None


class Unsubscribing:
    """Makes links and reads them again.

    ``secret_keys`` are RQMAIL_SECRET_KEY, by which links are signed, and former ones, by which they are still known.
    """

    def __init__(self, clock: Clock, web_url: str | None, secret_keys: Sequence[str]) -> None:
        self._clock = clock
        self._web_url = web_url
        self._secret_keys = tuple(secret_keys)

    def missing(self) -> str | None:
        """Say what has to be set before links can be made; ``None`` when they can."""
        if self._web_url is None:
            return "only with RQMAIL_WEB_URL set: the address under which people reach `rqmail web`, where links lead"
        if not self._secret_keys:
            return "only with RQMAIL_SECRET_KEY set: links are signed with a key made of it"
        return None

    def require(self) -> None:
        """Raise ``InvalidInputError`` while no links can be made."""
        missing = self.missing()
        if missing is not None:
            raise InvalidInputError("unsubscribe", True, missing)

    def links(self, addresses: Collection[str], sender: str) -> dict[str, str]:
        """Answer what stands behind the links of many addresses, by address as the suppression list writes it.

        Who unsubscribes from mail of a tenant gets none of that tenant; from all other mail, none at all.
        """
        return unsubscribing.links_of([same_person(address) for address in addresses], scopes_of(sender)[-1])

    def url(self, link: str, *, message_id: str | None = None, campaign_id: str | None = None) -> str:
        """Answer the address that a mail to one person carries; ``link`` is one of :meth:`links`."""
        self.require()
        kind, stood_in = _NOWHERE, b""
        if campaign_id is not None:
            kind, stood_in = _CAMPAIGN, UUID(campaign_id).bytes
        elif message_id is not None:
            kind, stood_in = _MESSAGE, UUID(message_id).bytes
        payload = bytes([_VERSION]) + UUID(link).bytes + bytes([kind]) + stood_in
        token = base64.urlsafe_b64encode(payload + _signature(self._keys[0], payload)).rstrip(b"=").decode()
        return f"{self._web_url}{PATH}/{token}"

    def url_for(
        self, address: str, sender: str, *, message_id: str | None = None, campaign_id: str | None = None
    ) -> str:
        """Answer the address that a mail of ``sender`` to this one address carries."""
        self.require()
        [link] = self.links([address], sender).values()
        return self.url(link, message_id=message_id, campaign_id=campaign_id)

    def headers_for(
        self, address: str, sender: str, *, message_id: str | None = None, campaign_id: str | None = None
    ) -> dict[str, str]:
        """Answer the headers by which one click unsubscribes (RFC 8058) of a mail to this one address."""
        return dict(one_click_headers(self.url_for(address, sender, message_id=message_id, campaign_id=campaign_id)))

    def read(self, token: str) -> Unsubscription:
        """Answer who a link is for; raises ``NotFoundError`` for one that is not whole, or none of ours."""
        payload = self._payload(token)
        found = None if payload is None else unsubscribing.behind(str(UUID(bytes=payload[1:17])))
        if payload is None or found is None:
            raise NotFoundError("link", token[:20])
        stood_in = payload[18:]
        in_ = str(UUID(bytes=stood_in)) if stood_in else ""
        source = f"link{_STOOD_IN[payload[17]]}{in_}"
        return Unsubscription(*found, source, in_ if payload[17] == _MESSAGE else None)

    def unsubscribe(self, found: Unsubscription) -> bool:
        """Let who the link is for get no mail from now on; answer whether that is new."""
        now = self._clock()
        entry = Entry(found.address, found.scope, Reason.UNSUBSCRIBE, found.source, now)
        with transaction():
            is_new = bool(suppression.keep([entry]))
            if is_new:
                tenant = found.scope.removeprefix("tenant:") if found.scope.startswith("tenant:") else None
                events.tell_of_unsubscription(found.address, tenant, found.message_id, now)
        return is_new

    def _payload(self, token: str) -> bytes | None:
        if len(token) > 200 or not token.isascii():
            return None
        try:
            whole = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        except (binascii.Error, ValueError):
            return None
        payload, signature = whole[:-_SIGNATURE_BYTES], whole[-_SIGNATURE_BYTES:]
        signed = any(hmac.compare_digest(_signature(key, payload), signature) for key in self._keys)
        return payload if signed else None

    @cached_property
    def _keys(self) -> tuple[bytes, ...]:
        # The info text keeps these keys apart from others that are derived from the same secret.
        return tuple(
            HKDF(algorithm=SHA256(), length=32, salt=None, info=b"rqmail unsubscribe links").derive(key.encode())
            for key in self._secret_keys
        )


def _signature(key: bytes, payload: bytes) -> bytes:
    return hmac.new(key, payload, hashlib.sha256).digest()[:_SIGNATURE_BYTES]
