"""A certificate authority for trying TLS out, and for a small deployment: a key, and certificates signed by it.

Everything is PEM, keys are elliptic (P-256) and unencrypted, and a certificate serves both ends of a connection, since
a node dials the others, too. What it stands for in openssl's commands is in the documentation of ``pykraft certs``.

Source: RFC 5280 (extensions), RFC 6125 (names of hosts); ``cryptography``.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pykraft.process.extras import imported_for

if TYPE_CHECKING:  # an extra
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate, CertificateBuilder, GeneralName, KeyUsage

CA_DAYS: Final = 3_650
NODE_DAYS: Final = 365
_AGE: Final = timedelta(minutes=5)
"""Certificates begin a little in the past: clocks of other machines may be behind."""


@dataclass(frozen=True, slots=True)
class Authority:
    """A key and a certificate that signs others."""

    key: EllipticCurvePrivateKey
    certificate: Certificate

    @staticmethod
    def create(name: str = "pykraft throw-away CA") -> Authority:
        """A new authority. Errors: UsageError without ``cryptography``."""
        with imported_for("a certificate authority"):
            from cryptography import x509
        key = _new_key()
        usage = _key_usage(signs_certificates=True)
        builder = _builder(name, name, key, CA_DAYS).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return Authority(key, _signed(builder.add_extension(usage, critical=True), key))

    @staticmethod
    def load(pem: bytes) -> Authority:
        """The authority whose key and certificate `pem` wrote. Errors: ValueError for other bytes."""
        with imported_for("a certificate authority"):
            from cryptography import x509
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.hazmat.primitives.serialization import load_pem_private_key
        key = load_pem_private_key(pem, None)
        if not isinstance(key, ec.EllipticCurvePrivateKey):
            raise ValueError("its key is not elliptic")  # noqa: TRY004 - the bytes are wrong, not a type of the caller
        return Authority(key, x509.load_pem_x509_certificate(pem))

    @property
    def pem(self) -> bytes:
        """Key and certificate."""
        return _key_pem(self.key) + self.certificate_pem

    @property
    def certificate_pem(self) -> bytes:
        return _pem(self.certificate)

    def issue(self, name: str, hosts: Sequence[str], *, days: float = NODE_DAYS) -> bytes:
        """A new key and its certificate, for these host names and addresses, and then this authority's certificate."""
        from cryptography import x509
        from cryptography.x509.oid import ExtendedKeyUsageOID as Usage

        key = _new_key()
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = (
            _builder(name, _name_of(self.certificate), key, days)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([Usage.SERVER_AUTH, Usage.CLIENT_AUTH]), critical=False)
            .add_extension(x509.SubjectAlternativeName([_general_name(host) for host in hosts]), critical=False)
            .add_extension(issuer, critical=False)
        )
        return _key_pem(key) + _pem(_signed(builder, self.key)) + self.certificate_pem


def write_private(path: Path, content: bytes) -> None:
    """Write a new file that only its owner can read. Errors: OSError, also if it exists."""
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.write(content)


def _builder(name: str, issuer: str, key: EllipticCurvePrivateKey, days: float) -> CertificateBuilder:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = datetime.now(UTC)
    subject, signer = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (name, issuer))
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(signer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(min(now, now + timedelta(days=days)) - _AGE)
        .not_valid_after(now + timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _signed(builder: CertificateBuilder, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography.hazmat.primitives.hashes import SHA256

    return builder.sign(key, SHA256())


def _key_usage(*, signs_certificates: bool) -> KeyUsage:
    from cryptography import x509

    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _general_name(host: str) -> GeneralName:
    from cryptography import x509

    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _name_of(certificate: Certificate) -> str:
    return str(certificate.subject.rfc4514_string().removeprefix("CN="))


def _pem(certificate: Certificate) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM)


def _key_pem(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
