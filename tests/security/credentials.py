"""Certificates of a test's own authority, and the properties that name them."""

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from pykraft.security.authority import Authority
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.settings import Security, SecurityProtocol

HOSTS = ("localhost", "127.0.0.1")


@cache
def authority() -> Authority:
    """The authority that all nodes of a test trust."""
    return Authority.create("the tests' CA")


def write(path: Path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def properties(folder: Path, *, name: str = "node", **given: str) -> dict[str, str]:
    """Properties of TLS with a certificate for this machine, which must be shown by clients; ``given`` has ``__``."""
    folder.mkdir(exist_ok=True)
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": write(folder / f"{name}.pem", authority().issue(name, HOSTS)),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": write(folder / "ca.pem", authority().certificate_pem),
        "ssl.client.auth": "required",
        **{key.replace("__", "."): value for key, value in given.items()},
    }


def encrypted(pem: bytes, password: str) -> bytes:
    """A key and its certificates, the key encrypted with this password."""
    key = serialization.load_pem_private_key(pem, None)
    encryption = serialization.BestAvailableEncryption(password.encode())
    own = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return own + pem.partition(b"-----END PRIVATE KEY-----\n")[2]


def self_signed() -> bytes:
    """A key, and a certificate for it that nobody has signed."""
    own = Authority.create("node")
    return own.pem


def reissued(usages: Sequence[x509.ObjectIdentifier]) -> bytes:
    """A key, and a certificate of the authority for these extended usages only."""
    key_pem, mark, rest = authority().issue("node", HOSTS).partition(b"-----BEGIN CERTIFICATE-----")
    issued, *chain = x509.load_pem_x509_certificates(mark + rest)
    builder = (
        x509.CertificateBuilder()
        .subject_name(issued.subject)
        .issuer_name(issued.issuer)
        .public_key(issued.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(issued.not_valid_before_utc)
        .not_valid_after(issued.not_valid_after_utc)
    )
    for extension in issued.extensions:
        is_usage = isinstance(extension.value, x509.ExtendedKeyUsage)
        value = x509.ExtendedKeyUsage(usages) if is_usage else extension.value
        builder = builder.add_extension(value, critical=extension.critical)
    signed = builder.sign(authority().key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    return key_pem + b"".join(each.public_bytes(pem) for each in (signed, *chain))


def security(values: Mapping[str, str]) -> Security:
    return Security.of_listener("SSL", SecurityProtocol.SSL, values)


def context(values: Mapping[str, str], side: Side) -> TlsContext:
    return TlsContext(security(values), side)
