"""Secrets and addresses in whatever is written."""

from __future__ import annotations

import base64
import json
import time
from datetime import UTC, datetime
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rqmail.administration.fields import checked_guid
from rqmail.errors import InvalidInputError, JobRefusedError, NotFoundError, told
from rqmail.intake.columns import Naming
from rqmail.intake.documents import json_rows
from rqmail.intake.moments import LocalTime
from rqmail.mailers.graph.certificate import AppCertificate
from rqmail.mailers.graph.errors import read_problem
from rqmail.text import scrubbing
from rqmail.text.scrubbing import (
    keep_passing_secret,
    keep_secret,
    scrubbed,
    scrubbed_event,
    scrubbed_start,
    scrubbed_value,
    without_addresses,
)


def test_a_known_secret_is_taken_out_however_it_is_written():
    keep_secret("pl%nted/secret\nwith a line end")
    forms = (
        "pl%nted/secret\nwith a line end",
        r"pl%nted/secret\nwith a line end",
        "pl%25nted%2Fsecret%0Awith%20a%20line%20end",
        "pl%25nted%2Fsecret%0Awith+a+line+end",
    )
    for written in forms:
        assert scrubbed(f"x {written} y") == "x *** y"


def test_a_known_secret_is_taken_out_in_json_in_small_hexadecimal_and_in_base64_behind_a_name():
    secret = 'plänted~secret\\with"quotes/and+more='
    keep_secret(secret)
    for written in (json.dumps(secret), quote(secret).lower(), quote(secret)):
        assert "***" in scrubbed(written)
        assert "quotes" not in scrubbed(written)
    for name in ("", "u:", "us:", "\0user\0"):
        for encode in (base64.b64encode, base64.urlsafe_b64encode):
            written = encode((name + secret).encode()).decode()
            assert len(scrubbed(f"x {written} y")) < len(name) + 20


def test_each_line_of_a_known_secret_with_many_is_taken_out():
    keep_secret("-----BEGIN X-----\nplantedlineone+/\nplantedlinetwo+/\n-----END X-----\n")
    assert scrubbed("ValueError: plantedlinetwo+/") == "ValueError: ***"


def test_the_last_line_of_an_apps_key_is_taken_out_too():
    AppCertificate("-----BEGIN X-----\nplantedlinefirst\nplantedlinelast=\n-----END X-----\n", "", datetime.now(UTC))
    assert scrubbed("ValueError: plantedlinelast=") == "ValueError: ***"


def test_why_a_job_is_refused_is_scrubbed_before_it_is_cut():
    keep_secret("planted-at-the-cut-0123456789")
    assert "planted" not in str(JobRefusedError("1", "planted-at-the-cut-0123456789"))


def test_a_short_secret_is_taken_out_as_a_word_and_names_of_events_stay():
    keep_secret("letter")
    assert scrubbed("letter and letters") == "*** and letters"
    keep_secret("mail")
    assert scrubbed_event("mail.rateLimit.deferred") == "mail.rateLimit.deferred"


@pytest.mark.parametrize(
    ("written", "left"),
    [
        ("Authorization: Bearer abcdef.gh", "Authorization: Bearer ***"),
        ("{'Authorization': 'Bearer abc-def-9', 'X': 1}", "{'Authorization': 'Bearer ***', 'X': 1}"),
        ("Invalid header value b'Bearer abcdefgh\\n'", "Invalid header value b'Bearer ***\\n'"),
        ("authorization=Basic dXNlcjpwdw==", "authorization=Basic ***"),
        ("client_id=x&client_secret=abc~d&scope=y", "client_id=x&client_secret=***&scope=y"),
        ('{"access_token": "abc", "expires_in": 3599}', '{"access_token": "***", "expires_in": 3599}'),
        ("key SG.aaaaaaaaaaaa.bbbbbbbbbbbbbb", "key ***"),
        ("token eyJhbGciOi.eyJpc3MiOi.abc_-9", "token ***"),
        ("redis://:hunter2@127.0.0.1:6379/0", "redis://:***@127.0.0.1:6379/0"),
        ("postgresql://mail:hunter2@db.example.org/mail", "postgresql://mail:***@db.example.org/mail"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nx", "***\nx"),
        ("Cookie: rqmail=.eJwl.aQx0Zg.sig; a=b", "Cookie: ***"),
        ("{'Set-Cookie': 'session=abc.def; Secure', 'X': 1}", "{'Set-Cookie': '***', 'X': 1}"),
        ("X-CSRFToken: IjM0.aQx0Zg.rr", "X-CSRFToken: ***"),
        ("csrf_token=IjM0.aQx0Zg.rr&a=b", "csrf_token=***&a=b"),
        ("AUTH PLAIN AHVzZXIAc2VjcmV0", "AUTH PLAIN ***"),
        ("Authorization: Basic dTpw", "Authorization: Basic ***"),
        ("https://x/AttachmentSessions('z')?authtoken=abc-9", "https://x/AttachmentSessions('z')?authtoken=***"),
        ("token rqm_abcdefghijkl", "token ***"),
        ("x " + "aB3+" * 16 + " y", "x *** y"),
        ("sha256 " + "ab12" * 16, "sha256 " + "ab12" * 16),
        ("the bearer of this note", "the bearer of this note"),
        ("Nothing was sent.", "Nothing was sent."),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(written, left):
    assert scrubbed(written) == left


WRITTEN_AROUND = [
    lambda text: text.encode().hex(),
    lambda text: text.encode().hex().upper(),
    lambda text: json.dumps(json.dumps({"a": text})),
    lambda text: repr(repr(text)),
    lambda text: json.dumps(repr(text)),
    lambda text: repr(json.dumps(text)),
    lambda text: repr(text.encode()),
    lambda text: repr(repr(text.encode())),
    lambda text: repr(f"""it's "{text}" """),
    lambda text: quote(quote(text)),
]


@pytest.mark.parametrize("secret", ["planted-secret~0123456789", "plant\\ed/'secret\"of é+="])
@pytest.mark.parametrize("written", WRITTEN_AROUND)
def test_a_known_secret_is_taken_out_written_twice_over_and_in_hexadecimal(secret, written):
    keep_secret(secret)
    shown = scrubbed(f"x {written(secret)} y")
    assert "***" in shown
    assert not any(part in shown for part in ("plant", "secret", secret.encode().hex()))


@pytest.mark.parametrize(
    "written",
    [
        "token=Unheard0f1234",
        "token: Unheard0f1234",
        "{'token': 'Unheard0f1234', 'a': 1}",
        '"clientSecret":"Unheard0f"',
        "clientSecret=Unheard0f",
        "graphClientSecret: Unheard0f1234",
        "accessToken: Unheard0f1234",
        "RQMAIL_ADMIN_TOKEN=Unheard0f",
        "x-auth-token: Unheard0f1234",
        '{\\"client_secret\\": \\"Unheard0f\\"}',
        '"{\\\\\\"password\\\\\\":\\\\\\"Unheard0f\\\\\\"}"',
        "&#34;token&#34;: &#34;Unheard0f&#34;",
        "&quot;apiKey&quot;:&quot;Unheard0f&quot;",
        "client_secret%3DUnheard0f%26x",
        'password="Unheard0f and more"',
        "?token=Unheard0f&a=b",
        "TenantConfig(graph_client_secret='Unheard0f')",
        '"secret": "h0f"',
        "clientSecret=h0f",
    ],
)
def test_what_stands_behind_the_name_of_a_secret_is_taken_out_though_nobody_told_us(written):
    shown = scrubbed(written)
    assert "***" in shown
    assert not any(part in shown for part in ("Unheard", "0f", "and more"))


@pytest.mark.parametrize(
    "written",
    [
        "The token: expired yesterday",
        "unexpected token: '<'",
        "token: 5",
        "secret: none is needed",
        "clientSecret: is not a field that is known here",
        "check RQMAIL_GRAPH_CLIENT_SECRET: it is wrong",
        "    token = self._grant(claims, secret=None)",
        "max_tokens=5; token_type=Bearer; key: news",
        "secret_key: at least 16 characters",
        "Invalid client secret provided. Ensure the secret being sent in the request is the client secret value",
    ],
)
def test_ordinary_text_that_speaks_of_secrets_stays(written):
    assert scrubbed(written) == written


@pytest.mark.parametrize(
    "address",
    [
        "o'brien@example.org",
        '"a\\"b c"@example.org',
        "jan@[192.0.2.1]",
        '"jan"@[IPv6:::1]',
        "&#34;a b&#34;@example.org",
    ],
)
def test_an_address_is_taken_out_whole(address):
    assert without_addresses(f"no {address} here") == "no <address> here"


def test_addresses_are_taken_out_and_what_only_looks_like_one_stays():
    assert without_addresses("To: Zoë <zoe@example.org>, jan@x.nl; /users/a%40b.nl/x") == (
        "To: Zoë <<address>>, <address>; /users/<address>/x"
    )
    assert without_addresses("    @property\nredis://:***@host:1/0") == "    @property\nredis://:***@host:1/0"


def test_values_of_any_kind_are_scrubbed():
    keep_secret("planted-secret-value")
    told = scrubbed_value({"a": ["planted-secret-value", 7, None], "e": ValueError("planted-secret-value x@y.nl")})
    assert told == {"a": ["***", 7, None], "e": "ValueError('*** <address>')"}


@pytest.mark.parametrize(
    "text",
    [
        "a" * 200_000 + " @",
        "a.a-" * 50_000 + " @",
        "Bearer " * 30_000,
        "x@" * 100_000,
        '"' * 100_000 + "@",
        '"a' * 100_000 + "@",
        "o'" * 100_000 + "@",
        "x@[" * 50_000,
        "token='" * 30_000,
        "token=&quot;" * 20_000,
        "secret\\" * 30_000,
        "token" + " " * 200_000,
    ],
)
def test_a_long_text_takes_no_longer_than_it_is_long(text):
    def seconds(piece):
        began = time.process_time()
        scrubbed_value(piece)
        return time.process_time() - began

    assert seconds(text) < 0.05 + 12 * max(seconds(text[: len(text) // 4]), 0.002)


def test_a_lasting_secret_stays_known_however_many_tokens_come_after_it(monkeypatch):
    monkeypatch.setattr(scrubbing, "_MOST_PASSING", 100)
    keep_secret("planted-lasting-secret")
    keep_passing_secret("planted-first-token")
    for number in range(60):
        keep_passing_secret(f"token-number-{number:06}")
    assert scrubbed("planted-lasting-secret token-number-000059") == "*** ***"
    assert scrubbed("planted-first-token") == "planted-first-token"


def test_a_text_is_scrubbed_before_it_is_cut():
    secret = "planted-over-the-cut-0123456789"
    keep_secret(secret)
    assert scrubbed_start("x" * 20 + secret, 30) == "x" * 20 + "***"
    assert "planted" not in scrubbed_start(f"{secret} " * 10_000, 50_000)
    assert len(scrubbed_start("a" * 10_000_000, 30)) == 30


def test_no_half_of_a_secret_is_left_where_an_error_cuts_what_was_given():
    secret = "planted-in-what-was-given-0123456789"
    keep_secret(secret)

    def said(length, ask):
        with pytest.raises(InvalidInputError) as refused:
            ask("y" * (length - 10) + secret)
        return str(refused.value)

    assert "planted" not in said(100, lambda text: checked_guid("clientId", text))
    assert "planted" not in said(100, lambda text: LocalTime(date_format="%d").read("at", text))
    assert "planted" not in said(100, lambda text: Naming().read([text]))
    assert "planted" not in str(list(json_rows(lambda: iter(["y" * 50 + secret]), Naming())))
    body = json.dumps({"error": {"code": "x", "message": "y" * 990 + secret}}).encode()
    assert "planted" not in read_problem(body).message


def test_the_value_of_a_field_that_is_named_as_a_secret_is_hidden():
    given = {"password": "ab", "client_secret": b"xy", "X-CSRFToken": ["q"], "tokenName": "shop", "tokens": 3}
    assert scrubbed_value(given) == {
        "password": "***",
        "client_secret": "***",
        "X-CSRFToken": "***",
        "tokenName": "shop",
        "tokens": 3,
    }


def test_a_known_secret_is_taken_out_as_html_writes_it():
    secret = "pl'anted<&>\"secret"
    keep_secret(secret)
    for written in (
        "pl&#x27;anted&lt;&amp;&gt;&quot;secret",
        "pl&#39;anted&lt;&amp;&gt;&#34;secret",
        "pl'anted&lt;&amp;&gt;\"secret",
        r"pl\u0027anted\u003c\u0026\u003e\"secret",
    ):
        assert scrubbed(written) == "***"


def test_what_an_error_says_on_the_command_line_is_scrubbed():
    keep_secret("planted-as-a-key-0123")
    assert told(NotFoundError("mailbox", "planted-as-a-key-0123")) == "mailbox '***' does not exist"


@pytest.mark.parametrize("name", ["passwd", "pwd", "passphrase"])
def test_a_short_secret_behind_the_name_of_a_password_is_taken_out(name):
    assert scrubbed(f"{name}=ab1 x") == f"{name}=*** x"


@pytest.mark.parametrize(
    "written", ['"jan jansen"@x.nl', "&#34;jan jansen&#34;@x.nl", "&quot;jan@y&quot;@x.nl", r"\"jan jansen\"%40x.nl"]
)
def test_an_address_with_a_quoted_local_part_is_taken_out_whole(written):
    assert without_addresses(f"to {written}: no") == "to <address>: no"


@given(st.text('apiskwordeyJ.:=/ _"\n-', max_size=60))
@settings(max_examples=200, deadline=None)
def test_a_short_text_without_a_mark_is_scrubbed_as_a_long_one_is(text):
    if not scrubbing._ANY_MARK.search(text.lower()):
        long = "\n" + "," * 64
        assert scrubbed(text) + long == scrubbed(text + long)
