"""Values as people paste and mount them."""

from __future__ import annotations

import pytest

from rqmail.text.values import checked_entra_tenant, checked_guid, checked_line, checked_secret, trimmed

GUID = "5a4db0c5-7e4a-4a7e-9c1d-2b6f0a5e1c01"


@pytest.mark.parametrize(
    "clinging",
    [
        "{}\n",
        "{}\r\n",
        " {}\t",
        "\ufeff{}",
        "{}\u200b",
        "\u2060{}\u00ad",
        '"{}"',
        "'{}'",
        "\u201c{}\u201d\n",
        '"{}\n"',
        "\u202a{}\u202c",
        "\u00a0{}",
    ],
)
def test_what_clings_to_the_edges_of_a_value_is_taken_off(clinging):
    assert trimmed(clinging.format("s3cret value")) == "s3cret value"


@pytest.mark.parametrize("value", ["", "a", '"', "it's", '"Contoso" <a@b.nl>', "a\u200bb"])
def test_what_belongs_to_a_value_stays(value):
    assert trimmed(value) == value


@pytest.mark.parametrize(
    "check", [checked_secret, checked_guid, checked_entra_tenant, lambda v: checked_line(v, "a line")]
)
def test_an_invisible_character_inside_is_named_and_the_value_is_not_repeated(check):
    with pytest.raises(ValueError, match="character 6 is U\\+200B ZERO WIDTH SPACE") as refused:
        check("SG.ab\u200bcdefgh")
    assert "cdefgh" not in str(refused.value)


def test_a_secret_holds_no_blank_and_nothing_beyond_ascii():
    assert checked_secret("~aZ8Q._-!\"'") == "~aZ8Q._-!\"'"
    for wrong in ("a b", "a\nb", "a\u00e9"):
        with pytest.raises(ValueError, match="without blanks"):
            checked_secret(wrong)


def test_an_entra_tenant_is_a_guid_or_a_domain():
    assert checked_entra_tenant(GUID) == GUID
    assert checked_entra_tenant("contoso.onmicrosoft.com") == "contoso.onmicrosoft.com"
    for wrong in ("contoso", GUID[:-1], f"{GUID} x", "https://contoso.com", "-a.com", "a..com"):
        with pytest.raises(ValueError, match="GUID"):
            checked_entra_tenant(wrong)
    with pytest.raises(ValueError, match="GUID"):
        checked_guid("contoso.onmicrosoft.com")
