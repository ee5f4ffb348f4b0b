"""Certificates of a test's own authority, and the properties that name them."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from cryptography.hazmat.primitives import serialization

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


def security(values: Mapping[str, str]) -> Security:
    return Security.of_listener("SSL", SecurityProtocol.SSL, values)


def context(values: Mapping[str, str], side: Side) -> TlsContext:
    return TlsContext(security(values), side)
