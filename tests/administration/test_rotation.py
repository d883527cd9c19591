"""After a change of RQMAIL_SECRET_KEY what is stored is encrypted with the new one, on both databases and Valkey."""

from __future__ import annotations

import pytest

from mailers.servers import refused_url
from rqmail import bootstrap
from rqmail.administration.rotation import Held
from rqmail.errors import SettingsError
from rqmail.models.base import db
from rqmail.models.encrypted import ENCRYPTED, encrypted_texts
from rqmail.models.mailbox import TenantMailSetting
from rqmail.settings import Settings
from rqmail.token_store import RedisTokenStore
from rqmail.vault import SecretBox

OLD, NEW = "the former secret key", "the present secret key"
APP = "c11e47a9-90ab-4f6d-8a3e-77d1f5b2e902"


@pytest.fixture
def installed(database, redis_url, clock):
    """Make an application with these keys, the present one first."""
    made = []

    def install(*keys, redis_url=redis_url):
        settings = Settings(
            _env_file=None,
            database_url=database.url,
            redis_url=redis_url,
            secret_key=keys[0] if keys else None,
            former_secret_keys=list(keys[1:]) or None,
        )
        made.append(bootstrap.build(settings, clock))
        return made[-1]

    yield install
    for application in made:
        application.limiter.close()
        application.redis.close()
    db.obj.close_all()


def store(application, *tenants):
    for key in tenants:
        application.tenants.add(key, graph_client_id=APP, graph_client_secret=f"graph-{key}", sendgrid_api_key="SG.x")
    RedisTokenStore(application.redis, application.box).put("a", "token", 600)


def found(application):
    return {one.name: (one.level, one.text.code) for one in application.checkup.installation()}.get("secret key")


def test_everything_stored_is_encrypted_with_the_present_key_and_the_former_one_may_go(installed, redis_client):
    store(installed(OLD), "acme", "beta")
    application = installed(NEW, OLD)
    RedisTokenStore(application.redis, SecretBox(NEW)).take_turn("a", 30)
    assert found(application) == ("warning", "need-former-key")
    dry = application.rotation.status()
    assert (dry.secrets, dry.tokens) == (Held(former=4), Held(former=1))
    seen = []
    assert application.changes.by("me").rotate_vault(lambda *done: seen.append(done)) == dry
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    assert found(application) == ("ok", "no-former-key-needed")
    ttl = redis_client.pttl("rqmail:token:a")
    assert 590_000 < ttl <= 600_000, "a token lives as long as before"
    alone = installed(NEW)
    assert (alone.rotation.status().secrets, alone.rotation.status().tokens) == (Held(present=4), Held(present=1))
    assert alone.box.decrypt(TenantMailSetting.get_by_id("beta").graph_client_secret_encrypted) == "graph-beta"
    assert RedisTokenStore(alone.redis, alone.box).get("a") == "token"
    before = [one.text for one in encrypted_texts()]
    assert alone.rotation.rotate().former == 0
    assert [one.text for one in encrypted_texts()] == before, "what has the present key is left alone"
    assert [(line.who, line.action) for line in application.audit.lines(limit=2)] == [
        ("me", "vault.rotate.done"),
        ("me", "vault.rotate"),
    ]


def test_a_rotation_that_was_killed_half_way_is_ended_by_the_next(installed):
    store(installed(OLD), "acme", "beta")
    application = installed(NEW, OLD)

    def killed(done, _all):
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        application.rotation.rotate(killed)
    half = application.rotation.status()
    assert (half.secrets, half.tokens) == (Held(present=3, former=1), Held(former=1))
    assert application.rotation.rotate() == half
    assert application.rotation.status().former == 0


def test_what_no_key_opens_is_named_and_left_as_it_is(installed):
    store(installed(OLD), "acme")
    application = installed(NEW)
    before = [one.text for one in encrypted_texts()]
    report = application.rotation.rotate()
    assert report.unreadable == ("graphClientSecret of tenant acme", "sendgridApiKey of tenant acme")
    assert (report.secrets, report.tokens) == (Held(unreadable=2), Held(unreadable=1))
    assert [one.text for one in encrypted_texts()] == before
    assert found(application) == ("error", "no-key-opens")


def test_what_somebody_stored_meanwhile_stays(installed):
    store(installed(OLD), "acme")
    application = installed(NEW, OLD)
    one = encrypted_texts()[0]
    application.tenants.set("acme", graph_client_secret="a-newer-secret")
    one.replace(application.box.renewed(one.text))
    stored = TenantMailSetting.get_by_id("acme").graph_client_secret_encrypted
    assert application.box.decrypt(stored) == "a-newer-secret"


def test_with_redis_away_the_secrets_are_encrypted_anew_and_the_tokens_said_to_be_unknown(installed):
    store(installed(OLD), "acme")
    away = refused_url().replace("http://", "redis://") + "/0"
    application = installed(NEW, OLD, redis_url=away)
    report = application.rotation.rotate()
    assert (report.secrets, report.tokens) == (Held(former=2), None)
    assert "Redis cannot be used" in report.problem
    assert installed(NEW).rotation.status().secrets == Held(present=2)


def test_without_a_key_a_rotation_names_the_setting(installed):
    with pytest.raises(SettingsError, match="RQMAIL_SECRET_KEY"):
        installed().rotation.rotate()


def test_every_encrypted_column_of_the_tables_is_known(database):
    columns = {
        (table, column.name)
        for table in db.get_tables()
        for column in db.get_columns(table)
        if column.name.endswith("_encrypted")
    }
    assert {(column.model._meta.table_name, column.column_name) for column in ENCRYPTED} == columns
