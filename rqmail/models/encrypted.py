"""Where the tables hold encrypted texts, so that they can be encrypted with another key."""

from __future__ import annotations

from dataclasses import dataclass, field

import peewee

from rqmail.models.base import pooled_connection
from rqmail.models.mailbox import TenantMailSetting
from rqmail.models.webhooks import Webhook

#: Every encrypted column of every table, with what a person calls it.
ENCRYPTED: dict[peewee.Field, str] = {
    TenantMailSetting.graph_client_secret_encrypted: "graphClientSecret of tenant {}",
    TenantMailSetting.sendgrid_api_key_encrypted: "sendgridApiKey of tenant {}",
    Webhook.secret_encrypted: "secret of webhook {}",
}


@dataclass(frozen=True, slots=True)
class EncryptedText:
    """One encrypted text, and what a person calls it."""

    name: str
    text: str = field(repr=False)
    column: peewee.Field = field(repr=False)
    row: str = field(repr=False)

    def replace(self, text: str) -> None:
        """Write ``text`` in its place, unless somebody has written another one meanwhile."""
        key = self.column.model._meta.primary_key
        with pooled_connection():
            update = self.column.model.update({self.column: text})
            update.where(key == self.row, self.column == self.text).execute()


def encrypted_texts() -> list[EncryptedText]:
    """Answer every encrypted text that the tables hold."""
    found = []
    with pooled_connection():
        for column, name in ENCRYPTED.items():
            key = column.model._meta.primary_key
            rows = column.model.select(key, column).where(column.is_null(False)).order_by(key).tuples()
            found += [EncryptedText(name.format(row), text, column, row) for row, text in rows]
    return found
