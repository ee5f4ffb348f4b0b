"""How one listener or client is protected: its protocol and its ``ssl.…`` properties, as values.

A listener's own properties, ``listener.name.<listener>.ssl.…``, count before the plain ones. Invariants: a property
that cannot be honoured is refused, never passed over; a value shows no secret when it is printed. No file is read here,
so that the core, whose configuration has these values, stays without files.

Source: Kafka's ``SecurityProtocol``, ``SslConfigs``, ``BrokerSecurityConfigs``, ``ListenerName.configPrefix``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from pykraft.errors import ConfigError
from pykraft.security.principal import PrincipalMapping
from pykraft.text.secrets import MASK, is_secret


class SecurityProtocol(Enum):
    """What a listener speaks, by Kafka's names."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def is_served(self) -> bool:
        """False for SASL, which is not supported yet."""
        return self in (SecurityProtocol.PLAINTEXT, SecurityProtocol.SSL)


METRICS_NAME: Final = "PROMETHEUS"
KEY_VALUE_NAME: Final = "HTTP"
HTTP_NAMES: Final = (METRICS_NAME, KEY_VALUE_NAME)
"""What stands for a listener's name where HTTP is served: metrics, and the key-value store."""
PROTOCOL_NAMES: Final = tuple(protocol.value for protocol in SecurityProtocol)
NOT_YET: Final = "SASL is not supported yet, and is not passed over"
CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "ssl.client.auth": ("none", "requested", "required"),
    "ssl.endpoint.identification.algorithm": ("https", ""),
    "ssl.keystore.type": ("JKS", "PEM", "PKCS12"),
    "ssl.truststore.type": ("JKS", "PEM", "PKCS12"),
}
VERSIONS: Final = ("TLSv1.2", "TLSv1.3")
MAPPING_RULES_KEY: Final = "ssl.principal.mapping.rules"
TLS_NAMES: Final = (
    *CHOICES,
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.key.password",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.certificates",
    "ssl.enabled.protocols",
    "ssl.cipher.suites",
    MAPPING_RULES_KEY,
)
"""All properties of TLS that are honoured."""
_TLS: Final = re.compile(r"ssl\..*")
_UNSUPPORTED: Final = re.compile(r"([a-z0-9-]+\.)?sasl\..*|authorizer\.(?!class\.name$).*|connections\.max\.reauth\.ms")
_OF_LISTENER: Final = re.compile(r"listener\.name\.([^.]+)\.(.*)")


@dataclass(frozen=True, slots=True, repr=False)
class Setting:
    """The value of a property, with the key under which it was given. Printed, it hides a secret."""

    key: str
    value: str

    def __repr__(self) -> str:
        return f"{self.key}={MASK if is_secret(self.key) else self.value}"


@dataclass(frozen=True, slots=True)
class Security:
    """The protocol of a listener or client, and its properties by their plain names."""

    protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    settings: tuple[tuple[str, Setting], ...] = ()

    @property
    def uses_tls(self) -> bool:
        return self.protocol is SecurityProtocol.SSL

    def text(self, name: str, default: str = "") -> str:
        """The value of a property by its plain name, without surrounding blanks."""
        for known, setting in self.settings:
            if known == name:
                return setting.value.strip()
        return default

    def items(self, name: str) -> list[str]:
        """The values of a list, without blanks."""
        return [item.strip() for item in self.text(name).split(",") if item.strip()]

    def error(self, name: str, allowed: str) -> ConfigError:
        """The error about this property, under the key by which it was given."""
        key = next((setting.key for known, setting in self.settings if known == name), name)
        return ConfigError(key, self.text(name), allowed)

    @staticmethod
    def of_client(properties: Mapping[str, str]) -> Security:
        """What the properties of a Kafka client ask for: ``security.protocol`` and ``ssl.…``; others are ignored.

        Errors: ConfigError for what cannot be honoured, also for ``ssl.…`` without ``security.protocol=SSL``: it would
        be sent in the clear.
        """
        key = "security.protocol"
        protocol = protocol_of(key, properties.get(key, ""), properties.get(key, "").strip().upper() or "PLAINTEXT")
        # The properties file of a node may be given, too: what is for its listeners is not for a client.
        refuse_unsupported({name: properties[name] for name in properties if not _OF_LISTENER.fullmatch(name)})
        found = Security(protocol, _settings(properties, ""))
        if found.uses_tls:
            return _checked(found)
        for _, setting in found.settings:
            if setting.value.strip():
                raise ConfigError(setting.key, setting.value, f"it has no effect without {key}=SSL")
        return Security()

    @staticmethod
    def of_listener(listener: str, protocol: SecurityProtocol, properties: Mapping[str, str]) -> Security:
        """How the listener of this name is protected. Errors: ConfigError for what cannot be honoured."""
        if protocol is SecurityProtocol.PLAINTEXT:
            return Security()
        return _checked(Security(protocol, _settings(properties, f"listener.name.{listener.lower()}.")))


def _checked(security: Security) -> Security:
    """The same, if each value is one that can be honoured. Errors: ConfigError."""
    for name, choices in CHOICES.items():
        if security.text(name, choices[0]).lower() not in (choice.lower() for choice in choices):
            raise security.error(name, f"one of {', '.join(choice or 'nothing' for choice in choices)}")
    if set(security.items("ssl.enabled.protocols")) - set(VERSIONS):
        raise security.error("ssl.enabled.protocols", f"some of {', '.join(VERSIONS)}: older ones are not safe")
    try:
        PrincipalMapping(security.text(MAPPING_RULES_KEY))
    except ValueError as error:
        raise security.error(MAPPING_RULES_KEY, str(error)) from error
    return security


IN_THE_CLEAR: Final = Security()
"""How connections are made that nobody wants protected."""


def is_tls_name(key: str) -> bool:
    """Whether this property is one of TLS, a plain one or that of a listener."""
    match = _OF_LISTENER.fullmatch(key)
    return _TLS.fullmatch(key if match is None else match[2]) is not None


def protocol_of(key: str, given: str, name: str) -> SecurityProtocol:
    """The protocol of this name. Errors: ConfigError about the property, which says ``given``."""
    if name not in PROTOCOL_NAMES:
        raise ConfigError(key, given, f"a protocol is one of {', '.join(PROTOCOL_NAMES)}")
    protocol = SecurityProtocol(name)
    if not protocol.is_served:
        raise ConfigError(key, given, NOT_YET)
    return protocol


def refuse_unsupported(properties: Mapping[str, str], *, listeners: tuple[str, ...] = ()) -> None:
    """Errors: ConfigError for a wish for protection that cannot be granted, or that is for an unknown listener."""
    for key, value in properties.items():
        match = _OF_LISTENER.fullmatch(key)
        name = key if match is None else match[2]
        if not value.strip() or not (_UNSUPPORTED.fullmatch(name) or _TLS.fullmatch(name)):
            continue
        if _UNSUPPORTED.fullmatch(name):
            raise ConfigError(key, value, NOT_YET)
        if name not in TLS_NAMES:
            raise ConfigError(key, value, f"it cannot be honoured; of TLS there are {', '.join(sorted(TLS_NAMES))}")
        if match is not None and match[1].upper() not in listeners:
            raise ConfigError(key, value, f"{match[1]} is none of listeners: {', '.join(listeners).lower()}")


def _settings(properties: Mapping[str, str], prefix: str) -> tuple[tuple[str, Setting], ...]:
    found = []
    for name in TLS_NAMES:
        # A blank value counts: an empty ssl.endpoint.identification.algorithm switches the check of the host off.
        key = prefix + name if prefix + name in properties else name
        if key in properties:
            found.append((name, Setting(key, properties[key])))
    return tuple(found)
