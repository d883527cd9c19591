"""The settings: what they are without a word, and how a wrong one is refused."""

from __future__ import annotations

import os

import pydantic
import pytest

from rqmail.errors import SettingsError
from rqmail.settings import PREFIX, Settings, load_settings


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch, tmp_path):
    """Neither the variables nor the ``.env`` of whoever runs the tests."""
    for variable in [name for name in os.environ if name.startswith(PREFIX)]:
        monkeypatch.delenv(variable)
    monkeypatch.chdir(tmp_path)


def test_without_any_variable_the_defaults_hold():
    settings = load_settings()
    assert settings.database_url == "sqlite:///rqmail.db"
    assert settings.redis_url == "redis://127.0.0.1:6379/0"
    assert settings.graph_base_url == "https://graph.microsoft.com/v1.0"
    assert settings.graph_authority == "https://login.microsoftonline.com"
    assert (settings.rate_per_minute, settings.rate_recipients_per_day, settings.rate_in_flight) == (25, 9000, 3)
    assert (settings.rate_window, settings.poll_seconds, settings.send_lanes) == ("rolling", 1, 32)
    assert (settings.reserve_for_high, settings.unknown_policy) == (0, "hold")
    assert settings.secret_key is None
    assert settings.admin_token is None


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("DATABASE_URL", "mysql://root@127.0.0.1/mail", "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"),
        ("DATABASE_URL", "", "sqlite:///FILE or postgresql://USER:PASSWORD@HOST/NAME"),
        ("REDIS_URL", "http://127.0.0.1", "redis://HOST:PORT/DB, rediss://…, unix://PATH or redis+sentinel://"),
        ("GRAPH_BASE_URL", "http://graph.example.org/v1.0", "an https address (http for loopback only)"),
        ("GRAPH_BASE_URL", "https://", "an https address (http for loopback only)"),
        ("GRAPH_BASE_URL", "graph.example.org", "an https address (http for loopback only)"),
        ("GRAPH_AUTHORITY", "http://127.0.0.1:8000", "an https address"),
        ("SENDGRID_BASE_URL", "ftp://127.0.0.1", "an https address (http for loopback only)"),
        ("SECRET_KEY", "short", "at least 16 characters"),
        ("ADMIN_TOKEN", "short", "at least 16 characters"),
        ("CA_BUNDLE", "missing.pem", "a readable file with PEM certificates"),
        ("GRAPH_CERTIFICATE", "missing.pem", "a readable PEM or PFX file with private key and certificate"),
        ("RATE_PER_MINUTE", "0", "greater than or equal to 1"),
        ("RATE_PER_MINUTE", "many", "integer"),
        ("RATE_RECIPIENTS_PER_DAY", "-1", "greater than or equal to 1"),
        ("RATE_IN_FLIGHT", "5", "less than or equal to 4"),
        ("RATE_WINDOW", "sliding", "'rolling' or 'fixed'"),
        ("POLL_SECONDS", "0", "greater than or equal to 1"),
        ("POLL_SECONDS", "61", "less than or equal to 60"),
        ("SEND_LANES", "257", "less than or equal to 256"),
        ("RESERVE_FOR_HIGH", "-1", "greater than or equal to 0"),
        ("SEND_TIMEOUT_SECONDS", "0", "greater than 0"),
        ("MAX_ATTEMPTS", "0", "greater than or equal to 1"),
        ("UNKNOWN_POLICY", "ignore", "'hold', 'resend' or 'assume-sent'"),
        ("LOG_FORMAT", "xml", "'json' or 'console'"),
        ("TENANT_LICENCES", "0", "NUMBER, TENANT=NUMBER"),
        ("TENANT_LICENCES", "1,2", "NUMBER, TENANT=NUMBER"),
        ("TENANT_LICENCES", "contoso", "NUMBER, TENANT=NUMBER"),
        ("TENANT_RECIPIENTS_PER_DAY", "bad tenant=5", "NUMBER, TENANT=NUMBER"),
        ("ACCEPTED_DOMAINS", "contoso.example, nonsense", "domains separated by commas"),
    ],
)
def test_a_bad_value_is_refused_by_the_name_of_its_variable_and_what_is_allowed(monkeypatch, variable, value, allowed):
    monkeypatch.setenv(PREFIX + variable, value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert refused.value.field == PREFIX + variable
    assert allowed in refused.value.allowed
    assert PREFIX + variable in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("DATABASE_URL", "sqlite:////var/lib/rqmail.db"),
        ("DATABASE_URL", "postgresql://mail:word@db.example.org/mail"),
        ("REDIS_URL", "rediss://cache.example.org:6380/2"),
        ("REDIS_URL", "rediss://cache/?db=2&username=u&ssl_cert_reqs=none&ssl_check_hostname=no&ssl_ca_certs=/ca.pem"),
        ("REDIS_URL", "unix:///run/redis.sock?db=2"),
        ("REDIS_URL", "redis+sentinel://mail:p%40ss@a:26379,[::1]:26380,c/mail/2?sentinel_password=x"),
        ("REDIS_URL", "rediss+sentinel://a,b/mail"),
        ("GRAPH_BASE_URL", "http://127.0.0.1:9000/v1.0"),
        ("GRAPH_BASE_URL", "http://localhost:9000"),
        ("GRAPH_BASE_URL", "http://[::1]:9000"),
        ("RATE_WINDOW", "fixed"),
        ("UNKNOWN_POLICY", "assume-sent"),
        ("LOG_FORMAT", "json"),
    ],
)
def test_a_good_value_is_taken_as_it_is(monkeypatch, variable, value):
    monkeypatch.setenv(PREFIX + variable, value)
    assert getattr(load_settings(), variable.lower()) == value


@pytest.mark.parametrize(
    ("variable", "value", "read"),
    [
        ("TENANT_LICENCES", "250", {"": 250}),
        ("TENANT_LICENCES", " 250, Contoso.example = 40,", {"": 250, "contoso.example": 40}),
        ("TENANT_RECIPIENTS_PER_DAY", "", None),
        (
            "ACCEPTED_DOMAINS",
            "Contoso.example, @contoso.nl, fabrikam.example=fabrikam.nl",
            {"": {"contoso.example", "contoso.nl"}, "fabrikam.example": {"fabrikam.nl"}},
        ),
    ],
)
def test_what_belongs_to_a_tenant_is_read_by_its_name_and_that_of_the_settings_has_none(
    monkeypatch, variable, value, read
):
    monkeypatch.setenv(PREFIX + variable, value)
    assert getattr(load_settings(), variable.lower()) == read


def test_the_slash_at_the_end_of_an_address_does_not_matter(monkeypatch):
    monkeypatch.setenv("RQMAIL_GRAPH_BASE_URL", "https://graph.example.org/v1.0/")
    assert load_settings().graph_base_url == "https://graph.example.org/v1.0"


@pytest.mark.parametrize(
    "variable", ["SECRET_KEY", "ADMIN_TOKEN", "GRAPH_TENANT_ID", "GRAPH_CLIENT_SECRET", "CA_BUNDLE", "SENDGRID_API_KEY"]
)
def test_an_empty_variable_is_as_good_as_none(monkeypatch, variable):
    monkeypatch.setenv(PREFIX + variable, "")
    assert getattr(load_settings(), variable.lower()) is None


@pytest.mark.parametrize("variable", ["SECRET_KEY", "ADMIN_TOKEN", "DATABASE_URL", "REDIS_URL"])
def test_the_refusal_of_a_secret_does_not_repeat_it(monkeypatch, variable):
    monkeypatch.setenv(PREFIX + variable, "hunter2")
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(refused.value)


def test_a_secret_is_not_shown_with_the_settings(monkeypatch):
    monkeypatch.setenv("RQMAIL_SECRET_KEY", "a-very-long-secret-key")
    monkeypatch.setenv("RQMAIL_GRAPH_CLIENT_SECRET", "a-client-secret")
    shown = f"{load_settings()!r} {load_settings()}"
    assert "a-very-long-secret-key" not in shown
    assert "a-client-secret" not in shown


def test_a_dot_env_file_is_read_and_the_environment_wins_over_it(monkeypatch, tmp_path):
    (tmp_path / ".env").write_text("RQMAIL_RATE_PER_MINUTE=10\nRQMAIL_SEND_LANES=4\nUNRELATED=1\n")
    monkeypatch.setenv("RQMAIL_SEND_LANES", "8")
    settings = load_settings()
    assert (settings.rate_per_minute, settings.send_lanes) == (10, 8)


def test_what_is_handed_in_wins_over_everything(monkeypatch):
    monkeypatch.setenv("RQMAIL_SEND_LANES", "8")
    assert load_settings(send_lanes=2).send_lanes == 2
    with pytest.raises(SettingsError, match="RQMAIL_SEND_LANES"):
        load_settings(send_lanes=0)


def test_settings_do_not_change_once_read():
    with pytest.raises(pydantic.ValidationError):
        load_settings().send_lanes = 1


def test_every_setting_can_be_set_by_its_variable():
    assert Settings.model_config["env_prefix"] == PREFIX
    assert not [name for name, field in Settings.model_fields.items() if field.is_required() or field.alias]


CLINGING = ["{}\n", "{}\r\n", "\ufeff{}", "{}\u200b", ' "{}" ', "'{}'\n"]


@pytest.mark.parametrize("clinging", CLINGING)
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SENDGRID_API_KEY", "SG.abcdef-_0123456.abcdef"),
        ("GRAPH_CLIENT_SECRET", "abc~8Q.def"),
        ("SECRET_KEY", "a key with blanks in it"),
        ("ADMIN_TOKEN", "0123456789abcdef"),
        ("GRAPH_CLIENT_ID", "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902"),
        ("GRAPH_TENANT_ID", "contoso.onmicrosoft.com"),
        ("GRAPH_BASE_URL", "https://graph.example.org/v1.0"),
        ("GRAPH_AUTHORITY", "https://login.example.org"),
        ("SENDGRID_BASE_URL", "https://api.example.org"),
        ("SENDGRID_FROM", "Contoso <post@contoso.example>"),
        ("DATABASE_URL", "postgresql://mail:word@db.example.org/mail"),
        ("REDIS_URL", "redis://:word@cache.example.org:6380/2"),
        ("WEB_URL", "https://mail.example.org"),
        ("RATE_PER_MINUTE", 7),
        ("UNKNOWN_POLICY", "resend"),
    ],
)
def test_what_clings_to_a_setting_is_taken_off(monkeypatch, variable, value, clinging):
    monkeypatch.setenv(PREFIX + variable, clinging.format(value))
    read = getattr(load_settings(), variable.lower())
    assert (read.get_secret_value() if isinstance(read, pydantic.SecretStr) else read) == value


@pytest.mark.parametrize("variable", ["CA_BUNDLE", "GRAPH_CERTIFICATE"])
def test_what_clings_to_the_name_of_a_file_is_taken_off(monkeypatch, tmp_path, variable):
    (tmp_path / "a file.pem").touch()
    monkeypatch.setenv(PREFIX + variable, f'"{tmp_path}/a file.pem"\r\n')
    assert getattr(load_settings(), variable.lower()) == tmp_path / "a file.pem"


@pytest.mark.parametrize(
    ("variable", "value", "said"),
    [
        ("SENDGRID_API_KEY", "SG.abc\ndef", "character 7 is U+000A"),
        ("SENDGRID_API_KEY", "SG.abc\u200bdef", "U+200B ZERO WIDTH SPACE"),
        ("GRAPH_CLIENT_SECRET", "abc def", "U+0020 SPACE"),
        ("SECRET_KEY", "abcdefghijklm\u200bnopqrstu", "U+200B ZERO WIDTH SPACE"),
        ("GRAPH_CLIENT_ID", "an app", "a GUID such as"),
        ("GRAPH_TENANT_ID", "contoso", "or a domain such as"),
        ("GRAPH_BASE_URL", "https://graph.example.org/v1.0 beta", "U+0020 SPACE"),
        ("GRAPH_BASE_URL", "https://graph.example.org:99999/v1.0", "a number from 1 to 65535"),
        ("SENDGRID_FROM", "Contoso", "NAME <ADDRESS>"),
        ("DATABASE_URL", "postgresql://mail:hunter2%zz@db/mail", "% is written %25"),
        ("DATABASE_URL", "postgresql://mail:hunter2@db:port/mail", "a number from 1 to 65535"),
        ("DATABASE_URL", "postgresql://mail:hunter2/x@db/mail", "/ is written %2F"),
        ("DATABASE_URL", "postgresql://mail:hunter2%ff@db/mail", "UTF-8"),
        ("REDIS_URL", "redis://:hunter2@cache:sixthousand/0", "a number from 1 to 65535"),
        ("REDIS_URL", "redis://:hunter2@cache:0/0", "a number from 1 to 65535"),
        ("REDIS_URL", "redis://:hunter2\u200b@cache/0", "U+200B"),
        ("REDIS_URL", "redis://:hunter2@cache/mail", "DB is a number"),
        ("REDIS_URL", "redis://cache/0?password=hunter2&db=one", "db is a whole number"),
        ("REDIS_URL", "redis://:hunter2@cache/0?decode_responses=yes", "after ? may stand db, username"),
        ("REDIS_URL", "redis://:hunter2@cache/0?socket_timeout=30", "after ? may stand db, username"),
        ("REDIS_URL", "redis://:hunter2@cache/0?ssl_cert_reqs=none", "after ? may stand db, username"),
        ("REDIS_URL", "unix://:hunter2@/run/redis.sock?db=hunter2", "db is a whole number"),
        ("REDIS_URL", "redis://:hunter2[@cache/0", "[ is written %5B"),
        ("REDIS_URL", "redis+sentinel://:hunter2@a:26379/", "stands /SERVICE/DB"),
        ("REDIS_URL", "redis+sentinel://:hunter2@a:26379,/mail/0", "each Sentinel is HOST:PORT"),
        ("RETENTION_DAYS", "999999999", "36500"),
        ("AUDIT_RETENTION_DAYS", "999999999", "36500"),
        ("UNKNOWN_GRACE_SECONDS", "99999999999999", "31536000"),
        ("RATE_PER_MINUTE", "99999999999", "2147483647"),
    ],
)
def test_what_is_unfit_inside_a_setting_is_named_and_no_secret_is_repeated(monkeypatch, variable, value, said):
    monkeypatch.setenv(PREFIX + variable, value)
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert refused.value.field == PREFIX + variable
    assert said in refused.value.allowed
    for secret in ("hunter2", "SG.abc", "abc def"):
        assert secret not in str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://mail:p%40ss%25@a.example:5432,b.example:5433/mail?target_session_attrs=read-write",
        "postgresql:///mail?host=/var/run/postgresql",
        "postgresql://mail@%2Fvar%2Frun/mail",
        "postgresql://mail:word@[::1]:5432/mail",
    ],
)
def test_every_address_that_postgresql_knows_is_taken(monkeypatch, url):
    monkeypatch.setenv("RQMAIL_DATABASE_URL", url)
    assert load_settings().database_url == url


def test_passwords_in_addresses_are_not_shown_with_the_settings(monkeypatch):
    monkeypatch.setenv("RQMAIL_DATABASE_URL", "postgresql://mail:hunter2@db/mail")
    monkeypatch.setenv("RQMAIL_REDIS_URL", "redis://:p%40ssword@cache/0")
    settings = load_settings()
    assert "hunter2" not in f"{settings!r} {settings}"
    assert "p%40ssword" not in f"{settings!r} {settings}"
    assert "p@ssword" not in f"{settings!r} {settings}"
    assert set(settings.secrets) == {"hunter2", "p@ssword"}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_a_dot_env_file_of_any_editor_is_read(tmp_path, encoding):
    (tmp_path / ".env").write_bytes(
        "RQMAIL_RATE_PER_MINUTE=10\r\nRQMAIL_SENDGRID_FROM='Zoë <z@x.nl>'\r\n".encode(encoding)
    )
    settings = load_settings()
    assert (settings.rate_per_minute, settings.sendgrid_from) == (10, "Zoë <z@x.nl>")


def test_a_dot_env_file_that_is_no_text_is_named(tmp_path):
    (tmp_path / ".env").write_bytes(b"\xff\xfea")
    with pytest.raises(SettingsError, match=r"\.env"):
        load_settings()


def test_the_password_in_the_address_of_attachments_is_a_secret(monkeypatch):
    monkeypatch.setenv("RQMAIL_ATTACHMENTS_URL", "memory://key:planted-in-attachments@bucket/folder")
    assert "planted-in-attachments" in load_settings().secrets


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SECRET_KEY", "a key of many characters"),
        ("FORMER_SECRET_KEYS", "a former key of the past"),
        ("ADMIN_TOKEN", "0123456789abcdef"),
        ("GRAPH_CLIENT_SECRET", "abc~8Q.def"),
        ("SENDGRID_API_KEY", "SG.abcdef"),
        ("DATABASE_URL", "postgresql://mail:hunter2@db/mail"),
        ("REDIS_URL", "redis://:hunter2@cache/0"),
        ("ATTACHMENTS_URL", "s3://bucket/folder"),
    ],
)
@pytest.mark.parametrize("written", ["{}", "{}\n", "\ufeff{}\r\n"])
def test_every_secret_is_read_from_the_file_its_variable_names(monkeypatch, tmp_path, variable, value, written):
    (tmp_path / "secret").write_text(written.format(value), encoding="utf-8")
    monkeypatch.setenv(f"RQMAIL_{variable}_FILE", str(tmp_path / "secret"))
    from_file = getattr(load_settings(), variable.lower())
    monkeypatch.delenv(f"RQMAIL_{variable}_FILE")
    (tmp_path / ".env").write_text(f"RQMAIL_{variable}_FILE=secret\n")
    assert getattr(load_settings(), variable.lower()) == from_file
    (tmp_path / ".env").unlink()
    monkeypatch.setenv(f"RQMAIL_{variable}", value)
    assert getattr(load_settings(), variable.lower()) == from_file


def test_a_setting_that_is_no_secret_is_read_from_no_file(monkeypatch, tmp_path):
    (tmp_path / "number").write_text("7")
    monkeypatch.setenv("RQMAIL_SEND_LANES_FILE", str(tmp_path / "number"))
    assert load_settings().send_lanes == 32


@pytest.mark.parametrize(
    ("made", "allowed"),
    [
        (lambda path: None, "a file that can be read; no such file"),
        (lambda path: path.mkdir(), "an ordinary file of at most 64 KB"),
        (lambda path: path.write_bytes(b"k" * 70_000), "an ordinary file of at most 64 KB"),
        (lambda path: path.write_text(" \n"), "it is empty"),
        (lambda path: path.write_text("short-secret"), "at least 16 characters"),
        (lambda path: path.write_text("a key of many characters") and path.chmod(0o622), "not everybody may write"),
    ],
    ids=["missing", "a folder", "too large", "empty", "too short", "open to all"],
)
def test_a_file_that_holds_no_usable_secret_is_refused_by_its_variable(monkeypatch, tmp_path, made, allowed):
    made(tmp_path / "key")
    monkeypatch.setenv("RQMAIL_SECRET_KEY_FILE", str(tmp_path / "key"))
    with pytest.raises(SettingsError) as refused:
        load_settings()
    assert refused.value.field == "RQMAIL_SECRET_KEY_FILE"
    assert allowed in refused.value.allowed
    assert "short-secret" not in str(refused.value)


def test_a_secret_given_both_as_it_is_and_in_a_file_is_refused_unless_one_of_them_is_empty(monkeypatch, tmp_path):
    (tmp_path / "key").write_text("a key in a file, quite long")
    monkeypatch.setenv("RQMAIL_SECRET_KEY_FILE", str(tmp_path / "key"))
    (tmp_path / ".env").write_text("RQMAIL_SECRET_KEY='a key of many characters'\n")
    with pytest.raises(SettingsError, match=r"RQMAIL_SECRET_KEY_FILE.*only without RQMAIL_SECRET_KEY"):
        load_settings()
    handed_in = "a key handed in by code"
    assert load_settings(secret_key=handed_in).secret_key.get_secret_value() == handed_in
    monkeypatch.setenv("RQMAIL_SECRET_KEY", "")
    assert load_settings().secret_key.get_secret_value() == "a key in a file, quite long"
    monkeypatch.setenv("RQMAIL_SECRET_KEY_FILE", "")
    assert load_settings().secret_key is None
