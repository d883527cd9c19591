"""PEM files as openssl, Windows and people write them, and what is wrong with those that are of no use."""

from __future__ import annotations

import re
from datetime import timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)

from rqmail.errors import MailAuthError
from rqmail.mailers.graph.certificate import read_certificate


@pytest.fixture(scope="module")
def keys():
    return [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]


def pem_of(key, encryption=None, kind=PrivateFormat.PKCS8) -> str:
    return key.private_bytes(Encoding.PEM, kind, encryption or NoEncryption()).decode()


def certificate_of(key, now, *, days=(-1, 1), name="rqmail") -> str:
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(subject).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    made = made.not_valid_before(now + timedelta(days=days[0])).not_valid_after(now + timedelta(days=days[1]))
    return made.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()


BAG = 'Bag Attributes\r\n    localKeyID: 01 00\r\n    friendlyName: Zoë\'s "app"\r\nKey Attributes: <No Attributes>\r\n'


@pytest.fixture
def read(tmp_path, clock):
    def run(content, password=None):
        file = tmp_path / "app.pem"
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return read_certificate(file, clock(), password)

    return run


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "cp1252"])
@pytest.mark.parametrize("kind", [PrivateFormat.PKCS8, PrivateFormat.TraditionalOpenSSL])
def test_a_file_with_bag_attributes_and_a_byte_order_mark_is_read(read, keys, clock, encoding, kind):
    key, certificate = pem_of(keys[0], kind=kind), certificate_of(keys[0], clock())
    found = read((BAG + key.replace("\n", "\r\n") + BAG + certificate.replace("\n", "\r\n")).encode(encoding))

    assert (found.private_key, found.certificate) == (key.strip(), certificate.strip())
    assert key.splitlines()[1] not in repr(found)


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (2, 1, 0)])
def test_of_several_certificates_the_one_that_belongs_to_the_key_is_taken(read, keys, clock, order):
    own = certificate_of(keys[0], clock())
    parts = [own, certificate_of(keys[1], clock(), name="an authority", days=(-100, 900)), pem_of(keys[0])]

    assert read("".join(parts[number] for number in order)).certificate == own.strip()


def test_of_two_certificates_of_the_key_the_one_that_is_valid_longest_is_taken(read, keys, clock):
    old, new = certificate_of(keys[0], clock(), days=(-400, -10)), certificate_of(keys[0], clock(), days=(-1, 300))
    for pair in (old + new, new + old):
        found = read(pem_of(keys[0]) + pair)
        assert found.certificate == new.strip()
        assert (found.valid_until - clock()).days in {299, 300}


def test_one_that_is_valid_now_goes_before_the_next_one_that_is_not_yet(read, keys, clock):
    now, following = certificate_of(keys[0], clock(), days=(-300, 20)), certificate_of(keys[0], clock(), days=(10, 400))
    for pair in (now + following, following + now):
        assert read(pem_of(keys[0]) + pair).certificate == now.strip()


def test_keys_of_others_are_passed_over(read, keys, clock):
    own = certificate_of(keys[0], clock())
    curve = ec.generate_private_key(ec.SECP256R1())
    for others in (pem_of(keys[1]), pem_of(curve), pem_of(keys[1], BestAvailableEncryption(b"x"))):
        assert read(others + pem_of(keys[0]) + own).private_key == pem_of(keys[0]).strip()


@pytest.mark.parametrize(
    "written",
    [
        lambda pem: pem.replace("\n", "\r"),
        lambda pem: pem.replace("\n", "\n    "),
        lambda pem: pem.replace("\n", " \r\n"),
        lambda pem: '"' + pem.replace("\n", "\\n") + '"',
        lambda pem: pem.replace("\n", "\\r\\n"),
    ],
    ids=["CR alone", "indented", "blanks at the ends", "in one line of JSON", "in one line of JSON, from Windows"],
)
def test_lines_may_end_and_begin_as_copying_leaves_them(read, keys, clock, written):
    key, certificate = pem_of(keys[0]), certificate_of(keys[0], clock())
    found = read(written(key + certificate))
    assert (found.private_key, found.certificate) == (key.strip(), certificate.strip())


def test_each_thing_that_is_wrong_has_its_own_words(read, keys, clock, tmp_path):
    mine, other = keys
    good, now = pem_of(mine), clock()
    certificate = certificate_of(mine, now)
    curve = ec.generate_private_key(ec.SECP256R1())
    archive = pkcs12.serialize_key_and_certificates(b"x", mine, None, None, NoEncryption())
    cases = [
        (b"", "is neither PEM .* nor PFX"),
        (archive, "holds no certificate"),
        (archive[:-40], "as PFX: it is damaged"),
        (certificate, "holds no private key"),
        (good, "holds no certificate"),
        (pem_of(mine, BestAvailableEncryption(b"x")) + certificate, "encrypted private key"),
        (pem_of(mine, BestAvailableEncryption(b"x"), PrivateFormat.TraditionalOpenSSL) + certificate, "encrypted"),
        (pem_of(curve) + certificate_of(curve, now), "of the kind EC; Microsoft Entra takes RSA"),
        (good.replace(good.splitlines()[3], "AAAA") + certificate, "private key that cannot be read"),
        (good + certificate.replace(certificate.splitlines()[3], "AAAA"), "certificate that cannot be read"),
        (good + certificate_of(other, now), "to which its certificate does not belong"),
        (good + 2 * certificate_of(other, now), "none of its 2 certificates belongs"),
        (good + certificate_of(mine, now, days=(-9, -2)), f"expired on {now - timedelta(days=2):%Y-%m-%d}"),
        (good + certificate_of(mine, now, days=(2, 9)), f"not valid before {now + timedelta(days=2):%Y-%m-%d}"),
    ]
    for content, words in cases:
        with pytest.raises(MailAuthError) as refused:
            read(content)
        assert re.match(f"RQMAIL_GRAPH_CERTIFICATE .*{words}", str(refused.value)), (words, str(refused.value))
        assert "BEGIN PRIVATE" not in str(refused.value)
    with pytest.raises(MailAuthError, match="cannot be read"):
        read_certificate(tmp_path / "gone.pem", now)


@pytest.mark.parametrize("password", [None, "wachtwoord é"])
def test_a_pfx_file_is_read_with_its_password_and_gives_what_pem_gives(read, keys, clock, password):
    certificate = certificate_of(keys[0], clock())
    authority = certificate_of(keys[1], clock(), name="an authority", days=(-100, 900))
    loaded = [x509.load_pem_x509_certificate(one.encode()) for one in (certificate, authority)]
    encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    pfx = pkcs12.serialize_key_and_certificates(b"app", keys[0], loaded[0], loaded[1:], encryption)
    assert read(pfx, password) == read(pem_of(keys[0]) + certificate)
    if password:
        for wrong, words in ((None, "PASSWORD is not set"), ("wrong", "PASSWORD does not open it")):
            with pytest.raises(MailAuthError, match=words):
                read(pfx, wrong)


def test_an_encrypted_key_in_a_pem_file_is_opened_with_the_password(read, keys, clock):
    certificate = certificate_of(keys[0], clock())
    encrypted = pem_of(keys[0], BestAvailableEncryption(b"sesame")) + certificate
    assert read(encrypted, "sesame") == read(pem_of(keys[0]) + certificate)
    with pytest.raises(MailAuthError, match="RQMAIL_GRAPH_CERTIFICATE_PASSWORD does not open"):
        read(encrypted, "wrong")
    assert read(pem_of(keys[0]) + certificate, "not needed") == read(pem_of(keys[0]) + certificate)
