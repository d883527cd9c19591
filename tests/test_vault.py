"""The box that stored secrets are locked in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rqmail.errors import SettingsError
from rqmail.text.scrubbing import scrubbed
from rqmail.vault import SecretBox

BOX = SecretBox("a-key-of-16-chars")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_what_is_encrypted_comes_back(text):
    assert BOX.decrypt(BOX.encrypt(text)) == text


def test_the_same_text_is_never_the_same_token_and_shows_nothing():
    tokens = {BOX.encrypt("secret") for _ in range(3)}

    assert len(tokens) == 3
    assert all("secret" not in token and token.isascii() for token in tokens)


def test_another_process_with_the_same_key_reads_it():
    assert SecretBox("a-key-of-16-chars").decrypt(BOX.encrypt("x")) == "x"


@pytest.mark.parametrize(
    "token",
    ["", "nonsense", SecretBox("another-key-of-16").encrypt("x"), "é"],
    ids=["empty", "nonsense", "another key's", "not ascii"],
)
def test_what_another_key_made_is_refused_in_words(token):
    with pytest.raises(SettingsError, match=r"RQMAIL_SECRET_KEY.*changed since"):
        BOX.decrypt(token)


@pytest.mark.parametrize("key", [None, ""])
def test_without_a_key_the_box_stays_shut_and_names_the_setting(key):
    box = SecretBox(key)

    assert not box.usable
    for use in (box.encrypt, box.decrypt):
        with pytest.raises(SettingsError, match=r"RQMAIL_SECRET_KEY.*at least 16 characters"):
            use("x")


def test_the_key_does_not_show():
    assert "a-key" not in repr(BOX)
    with pytest.raises(SettingsError) as caught:
        BOX.decrypt("nonsense")
    assert "a-key" not in str(caught.value)


@pytest.mark.parametrize("given", ["{}\n", "{}\r\n", "\ufeff{}", '"{}"'])
def test_what_was_locked_while_a_line_end_counted_as_part_of_the_key_still_opens(given):
    key = "a key that is long enough"
    stored = SecretBox(given.format(key)).encrypt("a tenant's secret")
    assert SecretBox(key).decrypt(stored) == "a tenant's secret"


def test_what_a_box_has_opened_is_taken_out_of_logs_from_then_on():
    box = SecretBox("a key that is long enough")
    box.decrypt(box.encrypt("planted-in-the-vault"))
    assert scrubbed("say planted-in-the-vault") == "say ***"


def test_what_a_former_key_encrypted_is_still_read_and_what_is_new_has_the_present_one():
    old = SecretBox("the former secret key").encrypt("hush")
    box = SecretBox("the present secret key", ["an even older secret key", "the former secret key"])
    assert box.decrypt(old) == "hush"
    assert SecretBox("the present secret key").decrypt(box.encrypt("hush")) == "hush"
