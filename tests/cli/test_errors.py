"""What an error says on the command line: enough to act on, and no secret."""

from __future__ import annotations

import peewee
import psycopg
import pytest
import redis

from rqmail.cli.errors import explained
from rqmail.text.scrubbing import keep_secret

SECRET = "planted-secret-of-a-server"


@pytest.mark.parametrize("kind", [peewee.OperationalError, psycopg.OperationalError, redis.ConnectionError])
@pytest.mark.parametrize(
    "text", [f"no answer with {SECRET}", "no answer from postgresql://rqmail:unheard-of@db.example/rqmail"]
)
def test_what_a_server_s_library_says_is_told_without_its_secrets(kind, text):
    keep_secret(SECRET)
    told = explained(kind(text))
    assert told is not None
    assert "no answer" in told.message and "***" in told.message
    for secret in (SECRET, "unheard-of"):
        assert secret not in told.message and secret not in str(told.as_json())
