"""The authority by what openssl makes of it: chain, hosts, both usages, and a term that has ended."""

import ssl
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from pykraft.security.authority import Authority
from tests.security.credentials import HOSTS, authority


def own(pem: bytes) -> x509.Certificate:
    return x509.load_pem_x509_certificate(pem)


def test_certificate_keeps_the_rules_of_the_web() -> None:
    """cryptography's verifier is stricter than OpenSSL's: it wants each extension that RFC 5280 wants."""
    builder = PolicyBuilder().store(Store([authority().certificate]))
    chain = builder.build_server_verifier(x509.DNSName("localhost")).verify(own(authority().issue("n", HOSTS)), [])
    assert len(chain) == 2
    assert builder.build_client_verifier().verify(own(authority().issue("n", HOSTS)), []).subjects is not None
    with pytest.raises(VerificationError):
        builder.build_server_verifier(x509.DNSName("elsewhere")).verify(own(authority().issue("n", HOSTS)), [])
    with pytest.raises(VerificationError):
        builder.build_server_verifier(x509.DNSName("localhost")).verify(own(Authority.create().issue("n", HOSTS)), [])


def test_term_is_that_which_was_asked_for() -> None:
    now = datetime.now(UTC)
    ended, short = (own(authority().issue("n", HOSTS, days=days)) for days in (-1, 2))
    assert ended.not_valid_before_utc < ended.not_valid_after_utc < now
    assert timedelta(days=1.9) < short.not_valid_after_utc - now < timedelta(days=2.1)


def test_strict_verifier_of_python_accepts_it() -> None:
    context = ssl.create_default_context(cadata=authority().certificate_pem.decode())
    assert context.cert_store_stats()["x509_ca"] == 1


def test_authority_can_be_kept_and_read_again() -> None:
    again = Authority.load(authority().pem)
    assert again.certificate == authority().certificate
    assert own(again.issue("n", HOSTS)).issuer == authority().certificate.subject


def test_authority_with_another_kind_of_key_is_refused() -> None:
    key = ed25519.Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    with pytest.raises(ValueError, match="not elliptic"):
        Authority.load(key + authority().certificate_pem)
