"""What the mailers' tests share: servers of their own, an authority for TLS, a mail."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import trustme

from rqmail.mailers.base import Address, Mail
from rqmail.mailers.http.transport import Transport

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.fixture
def now() -> datetime:
    return NOW


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def transport():
    transport = Transport(connect_timeout=5, answer_timeout=5)
    yield transport
    transport.close()


@pytest.fixture
def mail() -> Mail:
    return Mail(
        id="01999999-aaaa-7bbb-8ccc-000000000001",
        subject="Uitnodiging ✓ – zomerfeest",
        to=(Address("zoe@example.org", "Zoë Müller"), Address("plain@example.org")),
        cc=(Address("cc@example.org", 'Jan "de" Vries'),),
        bcc=(Address("bcc@example.org"),),
        text="Beste allemaal",
        html="<p>Beste <b>allemaal</b> 🎉</p>",
        headers={"x-campaign": "zomer"},
    )
