"""Webhooks as people see and change them: who is told of what, how that goes, and telling again."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rqmail.clock import Clock
from rqmail.errors import InvalidInputError, NotFoundError
from rqmail.models import events, webhooks
from rqmail.models.base import pooled_connection, transaction
from rqmail.models.webhooks import EventType, Webhook, WebhookDelivery
from rqmail.settings import LOOPBACK_HOSTS
from rqmail.text.networks import is_public
from rqmail.text.scrubbing import keep_secret
from rqmail.text.values import checked_address
from rqmail.vault import SecretBox

if TYPE_CHECKING:  # what speaks HTTP is heavy, and most commands never need it
    from rqmail.mailers.webhook import WebhookCaller

#: The type of the event that only :meth:`Webhooks.test` sends.
TEST = "test"

_PREFIX = "whsec_"
_SECRET_BYTES = 32
_LONGEST_URL = 2_000

_ALLOWED = "an https address such as https://example.org/rqmail-events, of at most 2,000 characters, without a password"
_PRIVATE = "an https address that is public; with RQMAIL_WEBHOOK_ALLOW_PRIVATE=true also http and private addresses"


@dataclass(frozen=True, slots=True)
class WebhookView:
    """A webhook as it can be shown: everything but its secret.

    ``state`` is ``ok``, ``failing`` (since ``failing_since``) or ``disabled``; ``waiting`` is how many events it still
    has to be told.
    """

    id: str
    url: str
    events: tuple[EventType, ...]
    state: str
    failing_since: datetime | None
    last_error: str | None
    next_call_on: datetime | None
    delivered_on: datetime | None
    waiting: int
    created_on: datetime
    created_by: str


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """One event for a webhook: ``state`` is ``waiting``, ``delivered`` or ``given-up``; ``payload`` is what is sent."""

    event_id: str
    type: str
    state: str
    attempts: int
    status: int | None
    error: str | None
    created_on: datetime
    next_try_on: datetime | None
    delivered_on: datetime | None
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TestView:
    """What a receiver said to a test: ``ok`` with a status of 2xx."""

    event_id: str
    ok: bool
    status: int | None
    error: str | None


class Webhooks:
    """Keeps the webhooks."""

    def __init__(
        self, clock: Clock, box: SecretBox, caller: Callable[[], WebhookCaller], *, allow_private: bool
    ) -> None:
        self._clock = clock
        self._box = box
        self._caller = caller
        self._allow_private = allow_private

    def add(self, url: str, names: Iterable[str], *, by: str) -> tuple[WebhookView, str]:
        """Tell ``url`` of these events from now on; the secret in the answer is shown here alone."""
        checked = self._checked(url)
        wanted = _events(names)
        secret = _PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()
        keep_secret(secret)
        encrypted = self._box.encrypt(secret)
        webhook_id = f"wh_{secrets.token_hex(4)}"
        with transaction():
            Webhook.create(
                id=webhook_id,
                url=checked,
                events=" ".join(wanted),
                secret_encrypted=encrypted,
                created_on=self._clock(),
                created_by=by,
            )
        events.look_again()
        return self.get(webhook_id), secret

    def all(self) -> list[WebhookView]:
        """List the webhooks, the oldest first."""
        waiting = webhooks.waiting()
        with pooled_connection():
            return [_view(row, waiting.get(row.id, 0)) for row in Webhook.select().order_by(Webhook.created_on)]

    def get(self, webhook_id: str) -> WebhookView:
        """Answer one webhook; raises ``NotFoundError``."""
        return _view(_row(webhook_id), webhooks.waiting().get(webhook_id, 0))

    def remove(self, webhook_id: str) -> WebhookView:
        """Tell a webhook nothing more, and forget what it was told; answer what it was."""
        was = self.get(webhook_id)
        with transaction():
            Webhook.delete().where(Webhook.id == webhook_id).execute()
            WebhookDelivery.delete().where(WebhookDelivery.webhook_id == webhook_id).execute()
        events.look_again()
        return was

    def enable(self, webhook_id: str, *, enabled: bool) -> WebhookView:
        """Tell a webhook again, or for the time being nothing: what happens meanwhile it never hears of."""
        _row(webhook_id)
        fresh: dict[str, Any] = {"failures": 0, "failing_since": None, "held_until": None, "last_error": None}
        with transaction():
            Webhook.update(enabled=enabled, **(fresh if enabled else {})).where(Webhook.id == webhook_id).execute()
        events.look_again()
        return self.get(webhook_id)

    def test(self, webhook_id: str) -> TestView:
        """Call a webhook once, now, with an event of the type ``test``."""
        row = _row(webhook_id)
        secret = self._box.decrypt(row.secret_encrypted)
        event_id, body = events.new_id(), events.written(TEST, self._clock(), {"webhook": webhook_id})
        told = self._caller().tell(row.url, secret, event_id, body)
        return TestView(event_id, told.error is None, told.status, told.error)

    def deliveries(
        self, webhook_id: str, *, failed: bool = False, limit: int = 50, after: str | None = None
    ) -> list[DeliveryView]:
        """List the events for a webhook, newest first; ``failed`` ones were tried, and not taken so far."""
        _row(webhook_id)
        return [_delivery(row) for row in webhooks.deliveries(webhook_id, failed=failed, limit=limit, after=after)]

    def redeliver(self, webhook_id: str, event_ids: Sequence[str] | None = None) -> int:
        """Let these events, or all that failed, be delivered again at once; answer how many they are."""
        _row(webhook_id)
        if event_ids is not None and not event_ids:
            raise InvalidInputError("events", "", "at least one id of an event")
        now = self._clock()
        with transaction():
            number = webhooks.again(webhook_id, now, give_up_on=now + events.TRIED_FOR, event_ids=event_ids)
            if event_ids is not None and number < len(set(event_ids)):
                known = {
                    row.event_id
                    for row in WebhookDelivery.select(WebhookDelivery.event_id)
                    .where(WebhookDelivery.webhook_id == webhook_id)
                    .where(WebhookDelivery.event_id.in_(list(event_ids)))
                }
                raise NotFoundError("event", next(one for one in event_ids if one not in known))
        return number

    def _checked(self, url: str) -> str:
        try:
            parts = urlsplit(checked_address(url.strip(), _ALLOWED))
            unfit = parts.port == 0 or not parts.hostname or parts.username is not None or len(url) > _LONGEST_URL
        except ValueError:
            raise InvalidInputError("url", url[:200], _ALLOWED) from None
        if unfit or parts.scheme not in {"https", "http"} or parts.fragment:
            raise InvalidInputError("url", "***" if parts.username is not None else url[:200], _ALLOWED)
        if not self._allow_private and (parts.scheme != "https" or _is_private(parts.hostname or "")):
            raise InvalidInputError("url", url[:200], _PRIVATE)
        return url.strip()


def _is_private(host: str) -> bool:
    """Say whether a host is private by its name alone; where other names lead is looked at with each call."""
    try:
        return not is_public(str(ip_address(host)))
    except ValueError:
        return host in LOOPBACK_HOSTS or host.endswith(".localhost")


def _events(names: Iterable[str]) -> list[EventType]:
    given = set(names)
    known = {one.value for one in EventType}
    for name in sorted(given - known):
        raise InvalidInputError("events", name, ", ".join(EventType))
    if not given:
        raise InvalidInputError("events", "", f"at least one of {', '.join(EventType)}")
    return [one for one in EventType if one.value in given]


def _row(webhook_id: str) -> Webhook:
    with pooled_connection():
        row: Webhook | None = Webhook.get_or_none(Webhook.id == webhook_id)
    if row is None:
        raise NotFoundError("webhook", webhook_id)
    return row


def _view(row: Webhook, waiting: int) -> WebhookView:
    state = "disabled" if not row.enabled else "failing" if row.failing_since is not None else "ok"
    return WebhookView(
        id=row.id,
        url=row.url,
        events=tuple(EventType(name) for name in row.events.split()),
        state=state,
        failing_since=row.failing_since,
        last_error=row.last_error,
        next_call_on=row.held_until if state == "failing" else None,
        delivered_on=row.delivered_on,
        waiting=waiting,
        created_on=row.created_on,
        created_by=row.created_by,
    )


def _delivery(row: WebhookDelivery) -> DeliveryView:
    state = "waiting" if row.due_on is not None else "delivered" if row.delivered_on is not None else "given-up"
    return DeliveryView(
        event_id=row.event_id,
        type=row.type,
        state=state,
        attempts=row.attempts,
        status=row.status,
        error=row.error,
        created_on=row.created_on,
        next_try_on=row.due_on,
        delivered_on=row.delivered_on,
        payload=json.loads(row.payload),
    )
