"""Secrets are planted everywhere and everything fails: none of them is in anything that was written."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from reliability.running import Running
from rqmail.models.mailbox import SystemMailbox

RECIPIENT = "zeldzame.ontvanger@voorbeeld.example"
FAILING = Path(__file__).with_name("failing.py")


def private_key() -> str:
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


@pytest.fixture
def planted(running: Running) -> dict[str, str]:
    return {
        "admin token": "planted-admin-token-0123456789",
        "secret key": "planted-secret-key-0123456789",
        "client secret": running.sandbox.directory.client_secret,
        "sendgrid key": "SG.plantedplanted.plantedplantedplanted",
        "tenant secret": "planted~tenant~secret~0123456789",
        "tenant key": "SG.plantedtenant.plantedtenantplanted",
        "token": "eyJplanted0123456789.eyJplanted.planted",
        "private key": private_key(),
        "line of a key": private_key().splitlines()[5],
        "name and password": base64.b64encode(b"user:planted-password-of-basic").decode(),
        "cookie": ".plantedcookie.aQx0Zg.plantedsignatureplanted",
        "recipient": RECIPIENT,
    }


def forms(secret: str) -> list[str]:
    """A secret as it may stand in a text; of a private key each line of it."""
    if "PRIVATE KEY" in secret:
        return [line for line in secret.splitlines() if len(line) > 40]
    return [secret, quote(secret, safe=""), json.dumps(secret)[1:-1]]


def found(secrets: dict[str, str], text: str) -> list[str]:
    return [name for name, secret in secrets.items() if any(form in text for form in forms(secret))]


def test_whatever_fails_no_secret_is_in_anything_that_was_written(running: Running, planted: dict[str, str]) -> None:
    secrets = {name: secret for name, secret in planted.items() if name != "recipient"}
    environment = {
        **os.environ,
        **running.environment,
        "RQMAIL_ADMIN_TOKEN": planted["admin token"],
        "RQMAIL_SECRET_KEY": planted["secret key"],
        "RQMAIL_PACING": "burst",
        "RQMAIL_SENDGRID_API_KEY": planted["sendgrid key"],
        "RQMAIL_SENDGRID_FROM": "default@contoso.example",
        "RQMAIL_SENDGRID_BASE_URL": running.sandbox.base_url,
        "PYTHONPATH": os.pathsep.join(str(path) for path in (FAILING.parents[2], FAILING.parents[1])),
    }
    sandbox = {"authority": running.sandbox.authority, "ca_file": str(running.sandbox.ca_file)}
    SystemMailbox.delete().execute()
    ended = subprocess.run(
        [sys.executable, str(FAILING), json.dumps(planted), json.dumps(sandbox)],
        env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    assert ended.returncode == 1, ended.stderr[-3000:]
    assert "RuntimeError" in ended.stderr, "nobody caught the last one"
    *said, told = ended.stdout.strip().splitlines()
    shown = json.loads(told)
    log = "\n".join([*said, ended.stderr])
    statuses = {row[0] for row in shown["rows"]}
    assert {"ERROR", "UNKNOWN", "SCHEDULED"} <= statuses, "failures of several kinds were met"
    assert any("KeyError" in text for text in shown["redis"]), "RQ kept the failed job"
    written = {name: json.dumps(value, ensure_ascii=False) for name, value in shown.items()} | {"log": log}
    for place, text in written.items():
        assert found(secrets, text) == [], place
    for place in ("redis", "error pages", "metrics", "doctor"):
        assert RECIPIENT not in written[place], place
    assert RECIPIENT not in log


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("RQMAIL_REDIS_URL", "redis://user:planted-in-redis@127.0.0.1:1/0"),
        ("RQMAIL_REDIS_URL", "redis://user:planted-in-redis@127.0.0.1:port/0"),
        ("RQMAIL_DATABASE_URL", "postgresql://user:planted-in-database@127.0.0.1:1/rqmail"),
        ("RQMAIL_DATABASE_URL", "postgresql://user:planted-in-database%zz@127.0.0.1/rqmail"),
        ("RQMAIL_SENDGRID_API_KEY", "SG.planted key with blanks"),
        ("RQMAIL_GRAPH_CLIENT_SECRET", "planted\nin two lines"),
    ],
)
def test_no_command_prints_what_is_secret_in_a_setting(
    running: Running, tmp_path: Path, variable: str, value: str
) -> None:
    for command in (
        ["doctor"],
        ["send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--text", "t"],
    ):
        ended = subprocess.run(
            [sys.executable, "-m", "rqmail.cli", *command],
            cwd=tmp_path, env={**os.environ, **running.environment, variable: value},
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert "planted" not in ended.stdout + ended.stderr
        assert "Traceback" not in ended.stderr
