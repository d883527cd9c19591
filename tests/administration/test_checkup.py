"""Everything mail needs is checked, for the command line and for people alike, on both databases."""

from __future__ import annotations

from datetime import timedelta
from itertools import count

import psycopg
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption
from cryptography.hazmat.primitives.serialization.pkcs12 import serialize_key_and_certificates
from pydantic import SecretStr

from rqmail import bootstrap
from rqmail.administration.checkup import alike
from rqmail.insight.checked import last_checks
from rqmail.mailers.checking import SenderChecker
from rqmail.models.base import db, is_postgresql
from rqmail.models.deliveries import Reading
from rqmail.settings import Settings


@pytest.fixture
def application(database, redis_url, clock):
    settings = Settings(_env_file=None, database_url=database.url, redis_url=redis_url)
    application = bootstrap.build(settings, clock)
    yield application
    application.limiter.close()
    application.redis.close()
    db.obj.close_all()


def test_the_installation_is_checked_without_asking_a_provider(application, monkeypatch):
    application.tenants.add("acme", "default")
    for asking in ("own_app", "mailbox", "tenant"):
        monkeypatch.delattr(SenderChecker, asking)
    # The PostgreSQL of the tests runs without what makes a disk safe.
    forgetful = {"durability": ("warning", "database-forgets")} if is_postgresql() else {}
    assert {one.name: (one.level, one.text.code) for one in application.checkup.installation()} == forgetful | {
        "settings": ("ok", "settings-valid"),
        "secret key": ("warning", "no-secret-key"),
        "database": ("ok", "database-current"),
        "redis": ("ok", "redis-well"),
        "redis persistence": ("ok", "redis-forgets"),
        "ticks": ("error", "no-tick"),
        "workers": ("error", "no-worker"),
        "graph": ("warning", "no-graph"),
    }


def test_a_redis_that_throws_keys_away_once_it_is_full_is_told(application, redis_client):
    def found():
        return [one.level for one in application.checkup.installation() if one.text.code == "redis-evicts"]

    before = redis_client.config_get("maxmemory*")
    try:
        redis_client.config_set("maxmemory-policy", "allkeys-lru")
        assert found() == [], "it is never full"
        redis_client.config_set("maxmemory", 1_000_000_000)
        assert found() == ["warning"]
        redis_client.config_set("maxmemory-policy", "noeviction")
        assert found() == []
    finally:
        redis_client.config_set("maxmemory", before["maxmemory"])
        redis_client.config_set("maxmemory-policy", before["maxmemory-policy"])


def test_what_redis_keeps_on_disk_is_told(application, redis_client, monkeypatch):
    def found():
        known = ("redis-forgets", "redis-cannot-save")
        return [(one.level, one.text.code) for one in application.checkup.installation() if one.text.code in known]

    before = redis_client.config_get("save")["save"]
    try:
        redis_client.config_set("save", "")
        assert found() == [("ok", "redis-forgets")]
        redis_client.config_set("save", "3600 1")
        assert found() == []
        told = application.redis.info
        monkeypatch.setattr(application.redis, "info", lambda part: told(part) | {"aof_last_write_status": "err"})
        assert found() == [("warning", "redis-cannot-save")]
    finally:
        redis_client.config_set("save", before)


def test_standbys_that_postgresql_does_not_wait_for_are_warned_of(application, database):
    if not is_postgresql():
        pytest.skip("SQLite has none")

    def found():
        return [(one.level, one.text.values) for one in application.checkup.installation() if one.name == "replication"]

    assert found() == []
    with psycopg.connect(database.url, replication="database"):
        assert found() == [("warning", {"number": 1})]


def test_whether_the_message_trace_may_be_read_is_told_as_it_was_found_last(application, clock):
    def found():
        [finding] = [one for one in application.checkup.installation() if one.name == "message trace"]
        return finding.level, str(finding.text)

    reading = Reading("contoso", clock(), problem="ExchangeMessageTrace.Read.All is missing")
    reading.keep(clock())
    assert found() == ("warning", "contoso: ExchangeMessageTrace.Read.All is missing")
    reading.problem = None
    reading.keep(clock())
    assert found()[0] == "ok"


def test_mail_that_goes_elsewhere_is_warned_of_with_where_it_goes(application, monkeypatch):
    staged = application.settings.model_copy(update={"transport": "folder:/tmp/mail", "redirect_to": "me@x.nl"})
    monkeypatch.setattr(application.checkup, "_settings", staged)
    found = {one.name: (one.level, str(one.text)) for one in application.checkup.installation()}
    assert found["transport"] == ("warning", "no mail leaves: it goes to folder:/tmp/mail")
    assert found["redirect"] == ("warning", "all mail goes to me@x.nl, whoever it is for")


def test_what_the_providers_said_is_told_with_how_old_it_is_and_whom_nobody_asked_about(application, clock):
    assert application.checkup.senders().since is None
    for key in ("a", "b", "c"):
        application.tenants.add(key, "default")
    asked_on = clock()
    application.checks.check("tenant:a")
    clock.advance(timedelta(hours=1))
    application.checks.check("tenant:b")
    found = application.checkup.senders()
    assert (found.unasked, found.since) == (1, asked_on)
    [group] = alike(found.findings)
    assert [(one.kind, one.key, one.level) for one in group] == [("tenant", "a", "error"), ("tenant", "b", "error")]
    application.tenants.delete("a")
    assert [one.name for one in application.checkup.senders().findings] == ["tenant b"]


def test_asking_ends_with_its_time_and_goes_on_with_those_not_asked_for_longest(application, clock, monkeypatch):
    keys = ["a", "b", "c", "d", "e"]
    for key in keys:
        application.tenants.add(key, "default")
    monkeypatch.setattr("rqmail.administration.checks._AT_ONCE", 1)
    asked = []
    for rounds in ((2, 3), (2, 3), (2, 3), (9, 0)):
        seconds = count()
        monkeypatch.setattr(application.checks, "_monotonic", lambda seconds=seconds: float(next(seconds)))
        clock.advance(timedelta(minutes=1))
        before = last_checks()
        done = application.checkup.ask(within=rounds[0] + 0.5)
        assert (done.senders, done.left) == (5 - rounds[1], rounds[1])
        asked += sorted(name[-1] for name, check in last_checks().items() if before.get(name) != check)
    assert asked[:4] == ["a", "b", "c", "d"]
    assert "e" in asked[4:6]
    assert sorted(asked[6:]) == keys


def test_a_file_of_a_secret_that_everybody_may_read_is_warned_of(application, monkeypatch, tmp_path):
    path = tmp_path / "key"
    path.write_text("a key of many characters")
    monkeypatch.setenv("RQMAIL_SECRET_KEY_FILE", str(path))
    for mode, warned in ((0o600, False), (0o640, False), (0o644, True)):
        path.chmod(mode)
        found = [str(one.text) for one in application.checkup.installation() if one.level == "warning"]
        assert ("everybody on this machine may read the file of RQMAIL_SECRET_KEY_FILE" in found) is warned


def test_a_certificate_is_warned_of_thirty_days_before_it_ends(application, monkeypatch, clock, tmp_path):
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "rqmail")])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(clock()).not_valid_after(clock() + timedelta(days=90))
    encryption = BestAvailableEncryption(b"sesame")
    path = tmp_path / "app.pfx"
    path.write_bytes(serialize_key_and_certificates(b"a", key, made.sign(key, SHA256()), None, encryption))
    settings = {"graph_certificate": path, "graph_certificate_password": SecretStr("sesame")}
    monkeypatch.setattr(application.checkup, "_settings", application.settings.model_copy(update=settings))
    told = []
    for days in (59, 2, 30):
        clock.advance(timedelta(days=days))
        found = {one.name: one for one in application.checkup.installation()}["graph certificate"]
        told.append((found.level, found.text.code, found.text.values.get("days")))
    assert told == [("ok", "certificate-valid", None), ("warning", "certificate-ends", 29), ("error", "said", None)]
