"""Reads key stores and trust stores: PEM and PKCS12, from a file or from the property itself.

A certificate of one's own is checked when it is read, so that a wrong password, a key of another certificate or an
expired one is told at once, with the property and the file, and not as a handshake that fails somewhere. This needs
``cryptography``; a trust store in PEM does not. Invariant: what a store holds is read whole, or refused.

Source: Kafka's ``DefaultSslEngineFactory`` (``PemStore``, ``FileBasedStore``); RFC 7468, RFC 7292.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Final

from pykraft.errors import ConfigError
from pykraft.process.extras import imported_for
from pykraft.security.settings import Security

if TYPE_CHECKING:  # an extra
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
    from cryptography.x509 import Certificate

STORE_SIZE_BYTES_MAX: Final = 4 * 1024 * 1024
_PEM_MARK: Final = b"-----BEGIN "
_PEM_END: Final = b"-----END "
_PEM: Final = re.compile(r"-----BEGIN ([A-Z0-9 ]+)-----(.*?)-----END \1-----", re.DOTALL)
_JKS_MAGIC: Final = bytes.fromhex("feedfeed")
_BY_KEYTOOL: Final = "keytool -importkeystore -srckeystore {file} -destkeystore {file}.p12 -deststoretype PKCS12"


@dataclass(frozen=True, slots=True)
class KeyStore:
    """A private key, PEM and encrypted with ``password``, with its certificates, PEM, the own one first."""

    certificates: bytes
    key: bytes
    password: bytes
    expires_s: float
    """When the first of the certificates expires that the other end needs, in seconds since 1970."""


def read_key_store(security: Security, password: bytes) -> KeyStore | None:
    """The own certificate and its key, which is kept encrypted with this password; None if there is none.

    Errors: ConfigError; UsageError without ``cryptography``.
    """
    store = _Store(security, "ssl.keystore", ("ssl.keystore.key", "ssl.keystore.certificate.chain"))
    if store.is_absent:
        return None
    with imported_for(f"property {store.name}:"):
        from cryptography.hazmat.primitives import serialization
    key, chain = store.read_key()
    now = datetime.now(UTC)
    for certificate in chain:
        if certificate.not_valid_after_utc < now:
            raise store.error(f"{certificate.subject.rfc4514_string()} has expired, {certificate.not_valid_after_utc}")
        if certificate.not_valid_before_utc > now:
            raise store.error(f"{certificate.subject.rfc4514_string()} begins {certificate.not_valid_before_utc}")
    encoding = serialization.Encoding.PEM
    return KeyStore(
        certificates=b"".join(certificate.public_bytes(encoding) for certificate in chain),
        key=key.private_bytes(
            encoding, serialization.PrivateFormat.PKCS8, serialization.BestAvailableEncryption(password)
        ),
        password=password,
        expires_s=min(certificate.not_valid_after_utc.timestamp() for certificate in chain),
    )


def read_trust_store(security: Security) -> str | bytes | None:
    """The trusted certificates, as PEM text or as DER one after another; None if there is no trust store.

    Errors: ConfigError; UsageError without ``cryptography`` for PKCS12.
    """
    store = _Store(security, "ssl.truststore", ("ssl.truststore.certificates",))
    if store.is_absent:
        return None
    content = store.content()
    if _PEM_MARK in content:
        return content.decode("ascii", "ignore")
    with imported_for(f"property {store.name}:"):
        from cryptography.hazmat.primitives.serialization import Encoding
    _, certificates = store.pkcs12(content)
    if not certificates:
        raise store.error("it has no certificate")
    return b"".join(certificate.public_bytes(Encoding.DER) for certificate in certificates)


def files_of(security: Security) -> list[Path]:
    """The files that the stores are read from."""
    names = ("ssl.keystore.location", "ssl.truststore.location")
    return [Path(location) for location in map(security.text, names) if location]


class _Store:
    """One store: where it is, and how to read it; its errors name the property and the file."""

    def __init__(self, security: Security, name: str, texts: Iterable[str]) -> None:
        self._security = security
        self._prefix = name
        self._location = security.text(f"{name}.location")
        self._texts = [text for text in texts if security.text(text)]
        self.name = f"{name}.location" if self._location or not self._texts else self._texts[0]
        """The property that says where it is."""
        self.is_absent = not self._location and not self._texts
        self._type = security.text(f"{name}.type").upper()
        if self._location and self._texts:
            raise security.error(self._texts[0], f"{name}.location is given, too: give one of them")

    def error(self, problem: str) -> ConfigError:
        return self._security.error(self.name, problem)

    def content(self) -> bytes:
        """The bytes of the store, of the kind that its type says. Errors: ConfigError."""
        if self._texts:
            if self._type != "PEM":
                raise self._security.error(f"{self._prefix}.type", f"PEM, since {self._texts[0]} is given")
            return "\n".join(_lines(self._security.text(text)) for text in self._texts).encode()
        try:
            with Path(self._location).open("rb") as file:
                content = file.read(STORE_SIZE_BYTES_MAX + 1)
        except (OSError, ValueError) as error:
            raise self.error(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
        if content.startswith(_JKS_MAGIC):
            raise self.error(f"a JKS store cannot be read; convert it: {_BY_KEYTOOL.format(file=self._location)}")
        is_pem = _PEM_MARK in content
        if is_pem and content.count(_PEM_MARK) != content.count(_PEM_END):
            raise self.error("it is cut off: it has no certificate, or a damaged one")
        if len(content) > STORE_SIZE_BYTES_MAX or not content or (self._type and (self._type == "PEM") != is_pem):
            kind = f"of the type {self._type}" if self._type else "of PEM or PKCS12"
            raise self.error(f"it is no store {kind} of at most {STORE_SIZE_BYTES_MAX} bytes; see {self._prefix}.type")
        return content

    def read_key(self) -> tuple[PrivateKeyTypes, list[Certificate]]:
        """The key and its chain, the own certificate first. Errors: ConfigError."""
        content = self.content()
        key, certificates = self._pem(content) if _PEM_MARK in content else self.pkcs12(content)
        if key is None:
            raise self.error("it has no private key")
        own = [certificate for certificate in certificates if _is_pair(key, certificate)]
        if not own:
            raise self.error("it has no certificate for its private key")
        return key, _chain(own[0], certificates)

    def pkcs12(self, content: bytes) -> tuple[PrivateKeyTypes | None, list[Certificate]]:
        """Key and certificates of a PKCS12 store. Errors: ConfigError."""
        from cryptography.hazmat.primitives.serialization import pkcs12

        name = f"{self._prefix}.password"
        password = self._security.text(name)
        own = self._security.text("ssl.key.password")
        if self._prefix == "ssl.keystore" and own and own != password:
            raise self._security.error("ssl.key.password", f"in PKCS12 it is the same as {name}")
        try:
            found = pkcs12.load_pkcs12(content, password.encode() or None)
        except ValueError as error:
            raise self.error(f"it cannot be opened: {name} is wrong, or the file is damaged") from error
        certificates = ([found.cert] if found.cert else []) + list(found.additional_certs)
        return found.key, [each.certificate for each in certificates]

    def _pem(self, content: bytes) -> tuple[PrivateKeyTypes | None, list[Certificate]]:
        from cryptography import x509
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        if self._security.text("ssl.keystore.password"):
            raise self._security.error("ssl.keystore.password", "PEM has none: the key's is ssl.key.password")
        if b"PRIVATE KEY-----" not in content:
            raise self.error("it has no private key")
        password = self._security.text("ssl.key.password").encode() or None
        is_encrypted = b"ENCRYPTED" in content
        if is_encrypted and password is None:
            raise self.error("its private key is encrypted: give ssl.key.password")
        try:
            key = load_pem_private_key(content[content.index(_PEM_MARK) :], password if is_encrypted else None)
        except (ValueError, TypeError) as error:
            doubt = "ssl.key.password is wrong, or the key is damaged" if is_encrypted else "the private key is damaged"
            raise self.error(doubt) from error
        try:
            return key, x509.load_pem_x509_certificates(content)
        except ValueError as error:
            raise self.error("it has no certificate, or a damaged one") from error


def _lines(text: str) -> str:
    """PEM text with line ends, which a property of one line has not."""
    parts = ((match[1], "\n".join(wrap("".join(match[2].split()), 64))) for match in _PEM.finditer(text))
    return "\n".join(f"-----BEGIN {label}-----\n{body}\n-----END {label}-----" for label, body in parts)


def _is_pair(key: PrivateKeyTypes, certificate: Certificate) -> bool:
    return certificate.public_key() == key.public_key()


def _chain(own: Certificate, certificates: list[Certificate]) -> list[Certificate]:
    """The own certificate, that of its issuer, and so on, as TLS sends them; others are left out."""
    chain = [own]
    while chain[-1].issuer != chain[-1].subject:
        issuers = [each for each in certificates if each.subject == chain[-1].issuer and each not in chain]
        if not issuers:
            break
        chain.append(issuers[0])
    return chain
