"""Files as they are given: whatever program wrote them, no command ends in a traceback."""

import os
import subprocess
import sys

import pytest

from rqmail.models.contents import load_contents

BODY = "<p>Beste Zoë, tot ziens in Café Ørsted</p>"


@pytest.fixture
def mailbox(run_json):
    run_json("mailbox", "add", "news", "--address", "news@x.nl")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "cp1252"])
@pytest.mark.parametrize("kind", ["text", "html"])
def test_a_body_is_read_in_whatever_encoding_it_was_written(run_json, mailbox, tmp_path, encoding, kind):
    file = tmp_path / "body"
    file.write_bytes(BODY.encode(encoding))
    send = ("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s")
    for path, given in ((file, None), ("-", BODY.encode(encoding))):
        message_id = run_json(*send, f"--{kind}-file", path, stdin=given)["id"]
        assert getattr(load_contents([message_id])[message_id], kind) == BODY


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-be"])
def test_a_secret_file_is_read_in_whatever_encoding_it_was_written(run_json, app, tmp_path, encoding):
    file = tmp_path / "key"
    file.write_bytes("SG.key\r\n".encode(encoding))
    run_json("tenant", "add", "acme", "--sendgrid-api-key-file", file)
    assert app.box.decrypt(app.senders.find("tenant:acme").row.sendgrid_api_key_encrypted) == "SG.key"


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"\x00\x01\x02", bytes(range(256)), b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize(
    "arguments",
    [
        ("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--text-file", "FILE"),
        ("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", "--html-file", "FILE"),
        ("tenant", "add", "acme", "--sendgrid-api-key-file", "FILE"),
        ("tenant", "add", "acme", "--graph-client-id", "c", "--graph-client-secret-file", "FILE"),
        ("import", "FILE", "--mailbox", "news"),
        ("import", "FILE", "--mailbox", "news", "--format", "jsonl"),
    ],
    ids=lambda arguments: " ".join(arguments[:2] + arguments[-2:]),
)
def test_no_file_ends_a_command_in_a_traceback(run, mailbox, tmp_path, arguments, content):
    file = tmp_path / "file"
    file.write_bytes(content)
    result = run(*(file if one == "FILE" else one for one in arguments))
    assert result.exit_code in {0, 1, 2}
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception


@pytest.mark.parametrize("option", ["--text-file", "--html-file"])
def test_a_file_that_cannot_be_read_is_wrong_usage(run, mailbox, tmp_path, option):
    for path in (tmp_path, tmp_path / "gone"):
        result = run("send", "--mailbox", "news", "--to", "a@x.nl", "--subject", "s", option, path)
        assert result.exit_code == 2
        assert "cannot be read" in result.stderr


@pytest.mark.parametrize("option", ["--subject", "--text", "--html", "--to", "--cc"])
def test_an_argument_that_is_no_text_is_refused_by_name(environment, mailbox, option):
    options = {"--to": b"a@x.nl", "--subject": b"s", "--text": b"t", option: b"a\xff@x.nl"}
    arguments = [part for name, value in options.items() for part in (name.encode(), value)]
    command = [sys.executable.encode(), b"-m", b"rqmail.cli", b"send", b"--mailbox", b"news", *arguments]
    told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ)
    assert "Traceback" not in told.stderr
    assert told.returncode == 2, told.stderr
    assert option.removeprefix("--") in told.stderr
