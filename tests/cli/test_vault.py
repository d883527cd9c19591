"""`rqmail vault`: how many stored secrets need a former key, and encrypting them anew."""

from __future__ import annotations

import json

from rqmail import bootstrap
from rqmail.token_store import RedisTokenStore


def test_vault_tells_what_needs_a_former_key_and_rotates_it(run, run_json, app, environment, monkeypatch):
    app.tenants.add("beta", "sendgrid", sendgrid_from="post@beta.nl", sendgrid_api_key="SG.x")
    RedisTokenStore(app.redis, app.box).put("a", "token", 600)
    monkeypatch.setenv("RQMAIL_FORMER_SECRET_KEYS", json.dumps([environment["RQMAIL_SECRET_KEY"]]))
    monkeypatch.setenv("RQMAIL_SECRET_KEY", "another key for the tests")
    bootstrap.set_mail_rate_limiter_for_tests(None)
    former = {"present": 0, "former": 1, "unreadable": 0}
    assert run_json("vault", "status") == {
        "secrets": former, "tokens": former, "unreadable": [], "problem": None, "needFormerKey": 2
    }  # fmt: skip
    assert "Would be encrypted anew: 2 of 2." in run("vault", "rotate", "--dry-run").stdout
    rotated = run_json("vault", "rotate")
    assert (rotated["renewed"], rotated["dryRun"]) == (2, False)
    assert "Encrypted anew: 0 of 2." in run("vault", "rotate").stdout
    assert "Nothing needs a former key." in run("vault", "status").stdout
    monkeypatch.setenv("RQMAIL_SECRET_KEY", "a key that opens nothing")
    monkeypatch.delenv("RQMAIL_FORMER_SECRET_KEYS")
    bootstrap.set_mail_rate_limiter_for_tests(None)
    result = run("vault", "rotate", "--json")
    assert result.exit_code == 1
    assert json.loads(result.stdout)["unreadable"] == ["sendgridApiKey of tenant beta"]
    assert "No key opens sendgridApiKey of tenant beta" in run("vault", "status").stderr
