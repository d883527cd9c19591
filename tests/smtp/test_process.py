"""``rqmail smtp`` as a process: says where it listens, takes a mail, ends when it is told to."""

from __future__ import annotations

import os
import re
import signal
import smtplib
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from email.message import EmailMessage

import pytest
from click.testing import CliRunner

from rqmail import bootstrap
from rqmail.bootstrap import Application
from rqmail.cli import cli
from rqmail.models.base import pooled_connection
from rqmail.models.message import Message


def test_the_command_takes_mail_until_it_is_told_to_end(application: Application) -> None:
    token = application.access.create("erp", ["send"], by="test")[1]
    environment = os.environ | {
        "RQMAIL_DATABASE_URL": application.settings.database_url,
        "RQMAIL_REDIS_URL": application.settings.redis_url,
        "RQMAIL_LOG_FORMAT": "json",
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "rqmail.cli", "smtp", "--port", "0"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with process:
        assert process.stdout is not None
        said = ""
        while (found := re.search(r"SMTP on 127\.0\.0\.1:(\d+)", said)) is None:
            line = process.stdout.readline()
            assert line, said
            said += line
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "invoices@contoso.example", "secret.person@x.nl", "s"
        mail.set_content("t")
        with smtplib.SMTP("127.0.0.1", int(found[1]), timeout=20) as client:
            client.login("erp", token)
            client.send_message(mail)
        process.send_signal(signal.SIGTERM)
        said += process.stdout.read()
        assert process.wait(30) == 0
    with pooled_connection():
        assert Message.select().count() == 1
    assert "smtp.accepted" in said and "smtp.ended" in said
    assert "secret.person" not in said and token not in said


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({}, "RQMAIL_SMTP_CERTIFICATE"),
        ({"RQMAIL_SMTP_TRUSTED": "10.0.0.0/8"}, "RQMAIL_ADMIN_TOKEN"),
        ({"RQMAIL_SMTP_TRUSTED": "ten"}, "RQMAIL_SMTP_TRUSTED"),
    ],
)
def test_where_nobody_could_sign_in_it_does_not_listen(
    application: Application, monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], told: str
) -> None:
    bootstrap.set_mail_rate_limiter_for_tests(None)
    known = {
        "RQMAIL_DATABASE_URL": application.settings.database_url,
        "RQMAIL_REDIS_URL": application.settings.redis_url,
    }
    for name, value in (known | settings).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("asyncio.run", lambda _: pytest.fail("it listens"))
    result = CliRunner().invoke(cli, ["smtp", "--host", "0.0.0.0", "--port", "0"])
    assert result.exit_code == 2
    assert told in result.stderr
    bootstrap.set_mail_rate_limiter_for_tests(None)


@pytest.mark.parametrize("command", ["smtp", "web"])
def test_where_it_cannot_listen_it_says_so_in_a_line(
    application: Application, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    bootstrap.set_mail_rate_limiter_for_tests(None)
    monkeypatch.setenv("RQMAIL_DATABASE_URL", application.settings.database_url)
    monkeypatch.setenv("RQMAIL_REDIS_URL", application.settings.redis_url)
    monkeypatch.setenv("RQMAIL_ADMIN_TOKEN", "an-admin-token-of-a-test")
    monkeypatch.setattr("asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler", lambda *_: None)
    # waitress leaves its socket open when it cannot bind, which a process that ends does not mind.
    monkeypatch.setattr("rqmail.cli.web.serve", lambda _app, *where: socket.create_server(where))
    with socket.create_server(("127.0.0.1", 0)) as taken, ThreadPoolExecutor(1) as thread:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        # Another thread: a browser's test leaves a loop running in this one.
        asked = [command, "--port", place.partition(":")[2]]
        result = thread.submit(CliRunner().invoke, cli, asked).result()
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"Error: {place} cannot be listened on (Address already in use)."
    bootstrap.set_mail_rate_limiter_for_tests(None)
