"""Key stores and trust stores: what is read, and each way in which one is refused, with property, file and remedy."""

import subprocess
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from pykraft.errors import ConfigError, UsageError
from pykraft.security.stores import files_of, read_key_store, read_trust_store
from tests.security.credentials import HOSTS, authority, encrypted, properties, security, write

PASSWORD = "a secret word"  # noqa: S105 - a test's
WRONG = PASSWORD[1:]


def node_pem(name: str = "node") -> bytes:
    return authority().issue(name, HOSTS)


def as_pkcs12(pem: bytes, *, password: str = PASSWORD) -> bytes:
    own, *others = x509.load_pem_x509_certificates(pem)
    key = serialization.load_pem_private_key(pem, None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    # The order of the certificates of a store says nothing.
    return pkcs12.serialize_key_and_certificates(b"node", key, own, others[::-1], encryption)  # type: ignore[arg-type]


def read(**given: str) -> bytes:
    found = read_key_store(security({key.replace("__", "."): value for key, value in given.items()}), b"x")
    assert found is not None
    assert b"ENCRYPTED" in found.key
    return found.certificates


def refusal(**given: str) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**given)
    assert PASSWORD not in str(caught.value)
    return str(caught.value)


def names(certificates: bytes) -> list[str]:
    return [each.subject.rfc4514_string() for each in x509.load_pem_x509_certificates(certificates)]


CHAIN = ["CN=node", "CN=the tests' CA"]


def test_pem_file_has_the_key_and_its_chain(tmp_path: Path) -> None:
    pem = node_pem()
    assert names(read(ssl__keystore__location=write(tmp_path / "n.pem", pem))) == CHAIN
    mixed = authority().certificate_pem + pem
    assert names(read(ssl__keystore__location=write(tmp_path / "m.pem", mixed), ssl__keystore__type="PEM")) == CHAIN


def test_encrypted_key_needs_its_password(tmp_path: Path) -> None:
    location = write(tmp_path / "n.pem", encrypted(node_pem(), PASSWORD))
    assert names(read(ssl__keystore__location=location, ssl__key__password=PASSWORD)) == CHAIN
    assert "give ssl.key.password" in refusal(ssl__keystore__location=location)
    assert "ssl.key.password is wrong" in refusal(ssl__keystore__location=location, ssl__key__password=WRONG)
    problem = refusal(ssl__keystore__location=location, ssl__keystore__password=PASSWORD)
    assert "property ssl.keystore.password = '***': PEM has none" in problem


def test_pem_may_be_in_the_properties_on_one_line(tmp_path: Path) -> None:
    pem = node_pem().decode()
    key, _, chain = pem.partition("-----END PRIVATE KEY-----\n")
    parts = {"ssl__keystore__key": f"{key}-----END PRIVATE KEY-----", "ssl__keystore__certificate__chain": chain}
    for text in (parts, {name: part.replace("\n", " ") for name, part in parts.items()}):
        assert names(read(ssl__keystore__type="PEM", **text)) == CHAIN
    assert "ssl.keystore.type" in refusal(ssl__keystore__type="PKCS12", **parts)
    location = write(tmp_path / "n.pem", pem.encode())
    assert "give one of them" in refusal(ssl__keystore__type="PEM", ssl__keystore__location=location, **parts)


def test_pkcs12_store_is_read_and_its_chain_put_in_order(tmp_path: Path) -> None:
    location = write(tmp_path / "n.p12", as_pkcs12(node_pem()))
    for kind in ("PKCS12", "JKS", ""):  # Java opens PKCS12 under the name JKS, its default
        assert (
            names(
                read(
                    ssl__keystore__location=location,
                    ssl__keystore__type=kind or "PKCS12",
                    ssl__keystore__password=PASSWORD,
                )
            )
            == CHAIN
        )
    assert "ssl.keystore.password is wrong" in refusal(ssl__keystore__location=location, ssl__keystore__password=WRONG)
    problem = refusal(ssl__keystore__location=location, ssl__keystore__password=PASSWORD, ssl__key__password=WRONG)
    assert "ssl.key.password = '***': in PKCS12 it is the same" in problem


@pytest.mark.kafka
def test_store_of_openssl_and_java_is_read(tmp_path: Path) -> None:
    pem = write(tmp_path / "n.pem", node_pem())
    store = str(tmp_path / "n.p12")
    openssl = ["openssl", "pkcs12", "-export", "-in", pem, "-out", store, "-name", "n", "-passout", f"pass:{PASSWORD}"]
    subprocess.run(openssl, check=True, capture_output=True)
    assert names(read(ssl__keystore__location=store, ssl__keystore__password=PASSWORD))[0] == CHAIN[0]
    java = str(tmp_path / "java.p12")
    ca = write(tmp_path / "ca.pem", authority().certificate_pem)
    keytool = ["keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", ca, "-keystore", java]
    subprocess.run([*keytool, "-storepass", PASSWORD, "-storetype", "PKCS12"], check=True, capture_output=True)
    trusted = security({"ssl.truststore.location": java, "ssl.truststore.password": PASSWORD})
    assert read_trust_store(trusted) == authority().certificate.public_bytes(serialization.Encoding.DER)


def test_jks_store_is_refused_with_the_line_that_converts_it(tmp_path: Path) -> None:
    location = write(tmp_path / "n.jks", bytes.fromhex("feedfeed00000002"))
    assert f"keytool -importkeystore -srckeystore {location} -destkeystore {location}.p12" in refusal(
        ssl__keystore__location=location
    )


def test_each_way_in_which_a_key_store_is_useless_is_told_apart(tmp_path: Path) -> None:
    pem = node_pem()
    key, end, chain = pem.partition(b"-----END PRIVATE KEY-----\n")
    cases = {
        "it has no private key": chain,
        "the private key is damaged": key[:-40] + end + chain,
        "it has no certificate, or a damaged one": key + end,
        "it has no certificate, or a damaged one ": key + end + chain[:200],
        "it has no certificate for its private key": key + end + node_pem("other").partition(end)[2],
        "it is no store of PEM or PKCS12": b"",
        "ssl.keystore.password is wrong, or the file is damaged": b"\x30\x82\1\2\3",
        "CN=node has expired": authority().issue("node", HOSTS, days=-1),
    }
    for problem, content in cases.items():
        location = write(tmp_path / "n.pem", content)
        text = refusal(ssl__keystore__location=location)
        assert problem.strip() in text
        assert location in text
    assert "No such file" in refusal(ssl__keystore__location=str(tmp_path / "nothing"))
    location = write(tmp_path / "n.pem", pem)
    assert "no store of the type PKCS12" in refusal(ssl__keystore__location=location, ssl__keystore__type="PKCS12")


def test_without_a_store_there_is_none() -> None:
    assert read_key_store(security({}), b"x") is None
    assert read_trust_store(security({})) is None


def test_files_are_those_that_a_change_is_looked_for_in(tmp_path: Path) -> None:
    values = properties(tmp_path)
    assert [str(path) for path in files_of(security(values))] == [
        values["ssl.keystore.location"],
        values["ssl.truststore.location"],
    ]


def test_missing_package_is_told_with_the_command_that_installs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = properties(tmp_path)
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(UsageError, match=r"ssl.keystore.location: needs cryptography, .*'pykraft\[tls\]'"):
        read_key_store(security(values), b"x")
