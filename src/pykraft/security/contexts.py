"""The one place that makes `ssl.SSLContext`, from a `Security`, and makes it anew when its files have changed.

Invariants: a context verifies the other end, unless ``ssl.client.auth`` or an empty
``ssl.endpoint.identification.algorithm`` says otherwise; files that cannot be used leave the context as it was, until
they can be. Nodes of a quorum trust each other by the same authorities: a node whose own trust store refuses its own
certificate hears so before it serves, and not from each of its peers.

Source: Kafka's ``SslFactory`` (reconfiguration, ``SslEngineValidator``), ``DefaultSslEngineFactory``; KIP-1119 and
KAFKA-20025 for both directions; RFC 8446, RFC 9325 (no renegotiation).
"""

import os
import secrets
import ssl
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from enum import Enum
from math import inf
from typing import Final

from pykraft.errors import ConfigError
from pykraft.security.bounded import BoundedSSLContext
from pykraft.security.files import FromFiles
from pykraft.security.settings import VERSIONS, Security
from pykraft.security.stores import KeyStore, files_of, read_key_store, read_trust_store

_TLS_1_3_CIPHERS: Final = ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
_TLS_1_2_CIPHERS: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""With forward secrecy and authenticated encryption, as RFC 9325 and Mozilla's intermediate configuration want it."""
_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


class Side(Enum):
    """Which end of a connection a context is for."""

    SERVER = ssl.PROTOCOL_TLS_SERVER
    CLIENT = ssl.PROTOCOL_TLS_CLIENT


class TlsContext(FromFiles):
    """The context of one listener or client; `current` is for new connections."""

    what = "certificates"

    def __init__(self, security: Security, side: Side, *, among_nodes: bool = False) -> None:
        """Read the stores; ``among_nodes`` if the own certificate is for others that have the same trust store.

        Errors: ConfigError that names the property; UsageError for a package that is missing.
        """
        self._security = security
        self._side = side
        self._is_among_nodes = among_nodes
        self.expires_s = inf
        """When the own certificate, or one that it depends on, expires: seconds since 1970."""
        self.current: ssl.SSLContext
        super().__init__(files_of(security))

    def make(self) -> None:
        made = _made(self._security, self._side)
        if self._is_among_nodes:
            _check_own(self._security)
        self.current, self.expires_s = made


def _made(security: Security, side: Side) -> tuple[ssl.SSLContext, float]:
    """A new context, and when its certificate expires. Errors: ConfigError."""
    # Who is dialed has proven who it is before it can flood anybody.
    context = (BoundedSSLContext if side is Side.SERVER else ssl.SSLContext)(side.value)
    context.options |= ssl.OP_NO_RENEGOTIATION
    # A trust store may have a node's own certificate instead of a CA's, as Java's may.
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    versions = sorted(security.items("ssl.enabled.protocols")) or VERSIONS
    context.minimum_version, context.maximum_version = _VERSIONS[versions[0]], _VERSIONS[versions[-1]]
    _set_ciphers(context, security, versions)
    keys = read_key_store(security, secrets.token_hex().encode())
    if keys is not None:
        _load(context, keys, security)
    elif side is Side.SERVER:
        needs_trust = _verify_mode(security) and read_trust_store(security) is None
        also = "; so is ssl.truststore.location: ssl.client.auth asks for the other's" if needs_trust else ""
        raise ConfigError("ssl.keystore.location", "", f"is required: a listener with TLS has a certificate{also}")
    _set_trust(context, security, side)
    return context, inf if keys is None else keys.expires_s


def _check_own(security: Security) -> None:
    """Errors: ConfigError if the own trust store refuses the own certificate, as a server's or as a client's."""
    problem = refusal(security, None)
    if problem is not None:
        told = f"its own ssl.truststore.location refuses it, and so will the other nodes: {problem}"
        raise security.error("ssl.keystore.location", told)


def refusal(security: Security, host: str | None) -> str | None:
    """Why a node with these stores refuses the handshake of another one, at this host; None if it does not.

    Errors: ConfigError.
    """
    client, server = (_made(security, side)[0] for side in (Side.CLIENT, Side.SERVER))
    client.check_hostname = client.check_hostname and host is not None
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = (
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    )
    for end in ends * 3:  # TLS 1.2 takes two turns each, and the last one reads what the other end thinks of it
        try:
            end.do_handshake()
        except ssl.SSLWantReadError:
            continue
        except ssl.SSLCertVerificationError as error:
            return str(error.verify_message)
        except ssl.SSLError as error:
            return str(error.reason)
    return None


def _verify_mode(security: Security) -> ssl.VerifyMode:
    """Whether a listener asks those who dial it for a certificate."""
    asked = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL}
    return asked.get(security.text("ssl.client.auth").lower(), ssl.CERT_NONE)


def _set_trust(context: ssl.SSLContext, security: Security, side: Side) -> None:
    if side is Side.CLIENT:
        context.check_hostname = bool(security.text("ssl.endpoint.identification.algorithm", "https"))
    elif asked := _verify_mode(security):
        context.verify_mode = asked
    else:
        return
    trusted = read_trust_store(security)
    if trusted is not None:
        try:
            context.load_verify_locations(cadata=trusted)
        except (ssl.SSLError, ValueError) as error:
            is_file = security.text("ssl.truststore.location")
            name = "ssl.truststore.location" if is_file else "ssl.truststore.certificates"
            raise security.error(name, "it has no certificate, or a damaged one") from error
    elif side is Side.CLIENT:
        context.load_default_certs()
    else:
        # With the machine's own list, any certificate that anybody can buy would be accepted.
        raise security.error("ssl.client.auth", "set ssl.truststore.location, too: it says whose certificates count")


def _load(context: ssl.SSLContext, keys: KeyStore, security: Security) -> None:
    """Give the key to the context, which takes it only from a file: it is encrypted there, and gone at once."""
    try:
        with _as_file(keys.certificates + keys.key) as path:
            context.load_cert_chain(path, password=keys.password)
    except ssl.SSLError as error:
        raise security.error("ssl.keystore.location", f"its certificate cannot be used: {error.reason}") from error


@contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """A path with this content within the block; on Linux in memory only, since a container may have no disk for it."""
    if sys.platform == "linux":
        descriptor = os.memfd_create("pykraft")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(content)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(content)
            file.flush()
            yield file.name


def _set_ciphers(context: ssl.SSLContext, security: Security, versions: list[str] | tuple[str, ...]) -> None:
    """Allow only ``ssl.cipher.suites``, by the names that Java and OpenSSL have for them. Errors: ConfigError."""
    name = "ssl.cipher.suites"
    wanted = security.items(name)
    if not wanted:
        context.set_ciphers(_TLS_1_2_CIPHERS)
        return
    newer = [suite for suite in wanted if suite in _TLS_1_3_CIPHERS]
    if "TLSv1.3" in versions and len(newer) < len(_TLS_1_3_CIPHERS):
        always = ", ".join(_TLS_1_3_CIPHERS)
        raise security.error(name, f"with TLSv1.3 Python always has {always}: name all, or set ssl.enabled.protocols")
    older = [_openssl_name(suite) for suite in wanted if suite not in newer]
    if "TLSv1.2" not in versions:
        return
    with suppress(ssl.SSLError):
        context.set_ciphers(":".join(older))
    known = {cipher["name"] for cipher in context.get_ciphers()}
    unknown = [suite for suite in wanted if suite not in newer and _openssl_name(suite) not in known]
    if unknown or not older:
        raise security.error(name, f"{', '.join(unknown) or 'none of them'} is no cipher suite of TLSv1.2 here")


def _openssl_name(suite: str) -> str:
    """``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is ECDHE-RSA-AES128-GCM-SHA256."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_").replace("AES_", "AES").replace("_CBC_SHA", "_SHA")
    return name.removesuffix("_SHA256").replace("_", "-") if "CHACHA20" in name else name.replace("_", "-")
