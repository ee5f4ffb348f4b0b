"""Contexts: who is let in, which versions and ciphers, and files that change. Handshakes are in memory."""

import os
import ssl
from collections.abc import Mapping
from pathlib import Path

import pytest

from pykraft.errors import ConfigError
from pykraft.security.authority import Authority
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.principal import principal_of
from tests.security.credentials import HOSTS, authority, context, properties, security, write


def shake(client: TlsContext, server: TlsContext, *, host: str = "localhost") -> tuple[ssl.SSLObject, ssl.SSLObject]:
    """Both ends after their handshake. Errors: SSLError of the end that refuses."""
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.current.wrap_bio(to_client, to_server, server_hostname=host),
        server.current.wrap_bio(to_server, to_client, server_side=True),
    )
    for _ in range(3):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
    for end in ends:
        end.do_handshake()
    return ends


def pair(values: Mapping[str, str], **of_client: str) -> tuple[TlsContext, TlsContext]:
    changed = {key.replace("__", "."): value for key, value in of_client.items()}
    return context({**values, **changed}, Side.CLIENT), context(values, Side.SERVER)


def test_both_ends_prove_who_they_are(tmp_path: Path) -> None:
    client, server = shake(*pair(properties(tmp_path)))
    assert str(principal_of(server.getpeercert())) == "User:CN=node"
    assert client.version() == "TLSv1.3"


def test_client_without_a_certificate_is_let_in_unless_it_is_required(tmp_path: Path) -> None:
    values = properties(tmp_path)
    bare = context({"ssl.truststore.location": values["ssl.truststore.location"]}, Side.CLIENT)
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(bare, context(values, Side.SERVER))
    for wish in ("none", "Requested"):
        _, server = shake(bare, context({**values, "ssl.client.auth": wish}, Side.SERVER))
        assert str(principal_of(server.getpeercert())) == "User:ANONYMOUS"


def test_certificate_of_another_authority_is_refused_by_both(tmp_path: Path) -> None:
    values = properties(tmp_path)
    foreign = write(tmp_path / "foreign.pem", Authority.create().issue("node", HOSTS))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(*pair(values, ssl__keystore__location=foreign))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(context(values, Side.CLIENT), context({**values, "ssl.keystore.location": foreign}, Side.SERVER))


def test_host_is_compared_unless_that_is_switched_off(tmp_path: Path) -> None:
    values = properties(tmp_path)
    shake(*pair(values), host="127.0.0.1")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake(*pair(values), host="elsewhere")
    shake(*pair(values, ssl__endpoint__identification__algorithm=""), host="elsewhere")


def test_certificate_may_be_trusted_itself_without_its_authority(tmp_path: Path) -> None:
    values = properties(tmp_path)
    pem = Path(values["ssl.keystore.location"]).read_bytes()
    own = write(tmp_path / "own.pem", b"-----BEGIN CERTIFICATE" + pem.split(b"-----BEGIN CERTIFICATE")[1])
    shake(*pair({**values, "ssl.truststore.location": own}))
    another = write(tmp_path / "another.pem", authority().issue("node", HOSTS))
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(*pair({**values, "ssl.truststore.location": own}, ssl__keystore__location=another))


def test_versions_and_ciphers_are_the_wanted_ones(tmp_path: Path) -> None:
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    older = properties(tmp_path, ssl__enabled__protocols="TLSv1.2", ssl__cipher__suites=suite)
    client, _ = shake(*pair(older))
    assert (client.version(), client.cipher()) == ("TLSv1.2", ("ECDHE-ECDSA-AES128-GCM-SHA256", "TLSv1.2", 128))
    for other in ("ECDHE-ECDSA-AES256-GCM-SHA384", "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"):
        with pytest.raises(ssl.SSLError):
            shake(*pair(older, ssl__cipher__suites=other))
    newer = properties(tmp_path, ssl__enabled__protocols="TLSv1.3")
    with pytest.raises(ssl.SSLError):
        shake(context(older, Side.CLIENT), context(newer, Side.SERVER))


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ssl__cipher__suites": "TLS_AES_128_GCM_SHA256"}, "with TLSv1.3 Python always has"),
        ({"ssl__cipher__suites": "NULL-X", "ssl__enabled__protocols": "TLSv1.2"}, "NULL-X is no cipher suite"),
        ({"ssl__keystore__location": ""}, "ssl.keystore.location is required: a listener with TLS has a certificate$"),
        ({"ssl__keystore__location": "", "ssl__truststore__location": ""}, "; so is ssl.truststore.location"),
        ({"ssl__truststore__location": ""}, "set ssl.truststore.location, too"),
    ],
)
def test_what_cannot_be_honoured_is_refused(tmp_path: Path, given: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        context(properties(tmp_path, **given), Side.SERVER)


def test_each_cipher_has_forward_secrecy_and_authenticated_encryption(tmp_path: Path) -> None:
    names = {cipher["name"] for cipher in context(properties(tmp_path), Side.SERVER).current.get_ciphers()}
    older = {name for name in names if not name.startswith("TLS_")}
    assert older
    assert all(
        name.startswith("ECDHE-") and name.endswith(("-GCM-SHA256", "-GCM-SHA384", "POLY1305")) for name in older
    )


@pytest.mark.parametrize("content", [b"", b"-----BEGIN CERTIFICATE-----\nMIIB\n", b"none\n-----BEGIN NOTHING-----\n"])
def test_damaged_trust_store_is_refused(tmp_path: Path, content: bytes) -> None:
    values = properties(tmp_path)
    write(Path(values["ssl.truststore.location"]), content)
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location"):
        context(values, Side.SERVER)


def test_truncated_trust_store_is_refused_whole(tmp_path: Path) -> None:
    values = properties(tmp_path)
    two = authority().certificate_pem + Authority.create().certificate_pem
    write(Path(values["ssl.truststore.location"]), two[:-60])
    with pytest.raises(ConfigError, match="or a damaged one"):
        context(values, Side.SERVER)


def test_changed_certificate_is_taken_up_and_a_broken_one_is_not(tmp_path: Path) -> None:
    values = properties(tmp_path)
    server = context(values, Side.SERVER)
    before, expires_s = server.current, server.expires_s
    assert server.refresh() is None
    assert server.current is before
    location = Path(values["ssl.keystore.location"])
    location.write_bytes(b"half a file")
    report = server.refresh()
    assert report is not None
    assert "the former ones stay in use: property ssl.keystore.location" in report
    assert (server.current, server.expires_s, server.is_stale) == (before, expires_s, True)
    assert server.refresh() is None  # it is told once
    location.unlink()
    assert "No such file" in (server.refresh() or "")
    location.write_bytes(authority().issue("renewed", HOSTS, days=10))
    assert "were read again" in (server.refresh() or "")
    assert not server.is_stale
    assert server.expires_s < expires_s
    _, seen = shake(context(values, Side.CLIENT), server)
    assert str(principal_of(seen.getpeercert())) == "User:CN=renewed"


def test_authority_that_is_removed_from_the_trust_store_counts_no_more(tmp_path: Path) -> None:
    values = properties(tmp_path)
    client, server = pair(values)
    shake(client, server)
    write(Path(values["ssl.truststore.location"]), Authority.create().certificate_pem)
    assert server.refresh() is not None
    with pytest.raises(ssl.SSLCertVerificationError):
        shake(client, server)


def test_replaced_file_of_the_same_size_and_time_is_noticed(tmp_path: Path) -> None:
    """Kubernetes swaps a link to a directory: the file is another one."""
    values = properties(tmp_path)
    trust = Path(values["ssl.truststore.location"])
    server = context(values, Side.SERVER)
    times, content = trust.stat().st_mtime_ns, trust.read_bytes()
    other = tmp_path / "other.pem"
    other.write_bytes(content)
    os.utime(other, ns=(times, times))
    other.replace(trust)
    assert server.refresh() is not None


def test_no_key_is_left_on_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    values = properties(tmp_path / "given")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    context(values, Side.SERVER)
    monkeypatch.setattr("sys.platform", "darwin")
    context(values, Side.SERVER)
    assert list((tmp_path / "temporary").iterdir()) == []


def test_machines_own_list_counts_for_a_client_without_a_trust_store() -> None:
    assert TlsContext(security({}), Side.CLIENT).current.verify_mode is ssl.CERT_REQUIRED
