"""How one listener or client is protected: its protocol, and its ``ssl.…`` and ``sasl.…`` properties, as values.

A listener's own properties, ``listener.name.<listener>.ssl.…``, count before the plain ones, and those of a mechanism,
``listener.name.<listener>.plain.sasl.…``, before those of all. Invariants: a property that cannot be honoured is
refused, never passed over; a value shows no secret when it is printed. No file is read here, so that the core, whose
configuration has these values, stays without files.

Source: Kafka's ``SecurityProtocol``, ``SslConfigs``, ``SaslConfigs``, ``BrokerSecurityConfigs``, ``JaasContext``,
``ListenerName.configPrefix`` and ``saslMechanismConfigPrefix``.
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


MAP_KEY: Final = "listener.security.protocol.map"
METRICS_NAME: Final = "PROMETHEUS"
KEY_VALUE_NAME: Final = "HTTP"
HTTP_NAMES: Final = (METRICS_NAME, KEY_VALUE_NAME)
"""What stands for a listener's name where HTTP is served: metrics, and the key-value store."""
NO_SASL: Final = "HTTP has no SASL: SSL, and a certificate if ssl.client.auth=required"
PROTOCOL_NAMES: Final = tuple(protocol.value for protocol in SecurityProtocol)
NOT_YET: Final = "it is not supported, and is not passed over"
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
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
DIAL_REQUIRED: Final = (
    "sasl.mechanism.controller.protocol",
    f"is required: one of {', '.join(MECHANISMS)}, by which nodes dial each other",
)
_CHOICES_OF_MECHANISMS: Final = ("sasl.enabled.mechanisms", "sasl.mechanism", "sasl.mechanism.controller.protocol")
_HANDLERS: Final = "org.apache.kafka.common.security.oauthbearer."
_CLASSES: Final[Mapping[str, tuple[str, ...]]] = {
    "sasl.login.callback.handler.class": (f"{_HANDLERS}OAuthBearerLoginCallbackHandler",),
    "sasl.server.callback.handler.class": (f"{_HANDLERS}OAuthBearerValidatorCallbackHandler",),
    "sasl.oauthbearer.jwt.retriever.class": (f"{_HANDLERS}DefaultJwtRetriever", f"{_HANDLERS}FileJwtRetriever"),
    "sasl.oauthbearer.jwt.validator.class": (f"{_HANDLERS}DefaultJwtValidator", f"{_HANDLERS}BrokerJwtValidator"),
}
"""Classes that Kafka wants to be told, and what is done here in their place; others cannot be run."""
_NUMBERS: Final = ("connections.max.reauth.ms", "sasl.oauthbearer.clock.skew.seconds")
SASL_NAMES: Final = (
    *_CHOICES_OF_MECHANISMS,
    *_CLASSES,
    *_NUMBERS,
    "sasl.jaas.config",
    "sasl.oauthbearer.expected.audience",
    "sasl.oauthbearer.expected.issuer",
    "sasl.oauthbearer.jwks.endpoint.url",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    "pykraft.oauthbearer.required.scope",
    "pykraft.scram.users",
)
"""All properties of SASL that are honoured, each also with a mechanism in lower case before it."""
NAMES: Final = (
    *TLS_NAMES,
    *SASL_NAMES,
    *(f"{mechanism.lower()}.{name}" for mechanism in MECHANISMS for name in SASL_NAMES[len(_CHOICES_OF_MECHANISMS) :]),
)
"""All that is honoured."""
_OF_SECURITY: Final = re.compile(
    r"ssl\..*|([a-z0-9-]+\.)?(sasl\..*|connections\.max\.reauth\.ms|pykraft\.(scram\.users|oauthbearer\..*))"
)
_UNSUPPORTED: Final = re.compile(r"authorizer\.(?!class\.name$).*")
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
        return self.protocol in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self.protocol in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)

    def honours(self, name: str) -> bool:
        """Whether the property of this plain name has an effect with this protocol."""
        return self.uses_tls if name.startswith("ssl.") else self.uses_sasl

    @property
    def is_in_the_clear(self) -> bool:
        """Whether anybody may connect, and listen in."""
        return self.protocol is SecurityProtocol.PLAINTEXT

    def text(self, name: str, default: str = "") -> str:
        """The value of a property by its plain name, without surrounding blanks."""
        for known, setting in self.settings:
            if known == name:
                return setting.value.strip()
        return default

    def items(self, name: str) -> list[str]:
        """The values of a list, without blanks."""
        return [item.strip() for item in self.text(name).split(",") if item.strip()]

    def of_mechanism(self, mechanism: str, name: str, default: str = "") -> str:
        """The value of a property for this mechanism: its own one before that of all."""
        return self.text(self.key_of(mechanism, name), default)

    def key_of(self, mechanism: str, name: str) -> str:
        """The plain name of the property that counts for this mechanism."""
        own = f"{mechanism.lower()}.{name}"
        return own if self.text(own) else name

    @property
    def mechanisms(self) -> list[str]:
        """Those that may be used by who connects here; a program's nodes accept what they use."""
        return self.items("sasl.enabled.mechanisms") or self.items("sasl.mechanism")

    @property
    def own_mechanism(self) -> str:
        """That by which connections are made; empty if none is named."""
        return self.text("sasl.mechanism") or self.text("sasl.mechanism.controller.protocol")

    def error(self, name: str, allowed: str) -> ConfigError:
        """The error about this property, under the key by which it was given."""
        key = next((setting.key for known, setting in self.settings if known == name), name)
        return ConfigError(key, self.text(name), allowed)

    @staticmethod
    def of_client(properties: Mapping[str, str]) -> Security:
        """What a Kafka client's properties ask for: ``security.protocol``, ``ssl.…``, ``sasl.…``; others are ignored.

        Errors: ConfigError for what cannot be honoured, also for ``ssl.…`` without ``security.protocol=SSL``: it would
        be sent in the clear.
        """
        key = "security.protocol"
        protocol = protocol_of(key, properties.get(key, ""), properties.get(key, "").strip().upper() or "PLAINTEXT")
        # The properties file of a node may be given, too: what is for its listeners is not for a client.
        refuse_unsupported({name: properties[name] for name in properties if not _OF_LISTENER.fullmatch(name)})
        found = Security(protocol, _settings(properties, ""))
        for name, setting in found.settings:
            if setting.value.strip() and not found.honours(name):
                wanted = "SSL" if name in TLS_NAMES else "SASL_SSL"
                raise ConfigError(setting.key, setting.value, f"it has no effect without {key}={wanted}")
        if found.uses_sasl and not found.own_mechanism:
            raise ConfigError("sasl.mechanism", "", f"is required: one of {', '.join(MECHANISMS)}")
        return Security() if found.is_in_the_clear else _checked(found)

    @staticmethod
    def of_metrics(properties: Mapping[str, str]) -> Security:
        """How metrics that are no node's are protected, by the properties that a node has for its own.

        Errors: ConfigError for what cannot be honoured, also for ``listener.name.prometheus.ssl.…`` without PROMETHEUS
        in the map: they would be served in the clear.
        """
        found = protocols_by_listener(properties.get(MAP_KEY, "")).get(METRICS_NAME, SecurityProtocol.PLAINTEXT)
        own = {key: properties[key] for key in properties if key.startswith(f"listener.name.{METRICS_NAME.lower()}.")}
        refuse_unsupported(own, listeners=(METRICS_NAME,))
        if Security(found).uses_sasl:
            raise ConfigError(MAP_KEY, f"{METRICS_NAME}:{found.value}", NO_SASL)
        if found is SecurityProtocol.PLAINTEXT and (key := next((key for key in own if own[key].strip()), None)):
            raise ConfigError(key, own[key], f"it has no effect without {METRICS_NAME}:SSL in {MAP_KEY}")
        return Security.of_listener(METRICS_NAME, found, properties)

    @staticmethod
    def of_listener(
        listener: str, protocol: SecurityProtocol, properties: Mapping[str, str], *, is_dialed: bool = False
    ) -> Security:
        """How the listener of this name is protected; ``is_dialed`` if the node dials others in the same way.

        Errors: ConfigError for what cannot be honoured, and for all that is missing of what names mechanisms.
        """
        if protocol is SecurityProtocol.PLAINTEXT:
            return Security()
        given = _settings(properties, f"listener.name.{listener.lower()}.")
        found = Security(protocol, tuple(each for each in given if Security(protocol).honours(each[0])))
        lacks = []
        if found.uses_sasl and not found.mechanisms:
            lacks.append(("sasl.enabled.mechanisms", f"is required: some of {', '.join(MECHANISMS)}"))
        if found.uses_sasl and is_dialed and not found.own_mechanism:
            lacks.append(DIAL_REQUIRED)
        if lacks:
            raise ConfigError(lacks[0][0], "", "; ".join([lacks[0][1], *map(" ".join, lacks[1:])]))
        return _checked(found)


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
    for name in _CHOICES_OF_MECHANISMS:
        if set(security.items(name)) - set(MECHANISMS):
            raise security.error(name, f"of mechanisms there are {', '.join(MECHANISMS)}")
    for name, setting in security.settings:
        plain = _plain(name)
        if setting.value.strip() not in ("", *_CLASSES.get(plain, (setting.value.strip(),))):
            raise security.error(name, f"no class of Java can be run; known is {' and '.join(_CLASSES[plain])}")
        if plain in _NUMBERS and not re.fullmatch("[0-9]{1,15}", setting.value.strip() or "0"):
            raise security.error(name, "a whole number of 0 or more")
    return security


def _plain(name: str) -> str:
    """The name of a property without the mechanism before it."""
    mechanism, _, rest = name.partition(".")
    return rest if mechanism.upper() in MECHANISMS else name


IN_THE_CLEAR: Final = Security()
"""How connections are made that nobody wants protected."""


def is_of_security(key: str) -> bool:
    """Whether this property is one of TLS or SASL, a plain one or that of a listener."""
    match = _OF_LISTENER.fullmatch(key)
    return _OF_SECURITY.fullmatch(key if match is None else match[2]) is not None


def protocol_of(key: str, given: str, name: str) -> SecurityProtocol:
    """The protocol of this name. Errors: ConfigError about the property, which says ``given``."""
    if name not in PROTOCOL_NAMES:
        raise ConfigError(key, given, f"a protocol is one of {', '.join(PROTOCOL_NAMES)}")
    return SecurityProtocol(name)


def protocols_by_listener(text: str) -> dict[str, SecurityProtocol]:
    """What ``listener.security.protocol.map`` says, by names in upper case. Errors: ConfigError."""
    found = {}
    for item in filter(None, map(str.strip, text.split(","))):
        name, _, protocol = (part.strip().upper() for part in item.partition(":"))
        if not name or protocol not in PROTOCOL_NAMES:
            raise ConfigError(MAP_KEY, item, f"NAME:PROTOCOL with one of {', '.join(PROTOCOL_NAMES)}")
        found[name] = SecurityProtocol(protocol)
    return found


def refuse_unsupported(properties: Mapping[str, str], *, listeners: tuple[str, ...] = ()) -> None:
    """Errors: ConfigError for a wish for protection that cannot be granted, or that is for an unknown listener."""
    for key, value in properties.items():
        match = _OF_LISTENER.fullmatch(key)
        name = key if match is None else match[2]
        if not value.strip() or not (_UNSUPPORTED.fullmatch(name) or _OF_SECURITY.fullmatch(name)):
            continue
        if _UNSUPPORTED.fullmatch(name):
            raise ConfigError(key, value, NOT_YET)
        if name not in NAMES:
            known = TLS_NAMES if name.startswith("ssl.") else SASL_NAMES
            raise ConfigError(key, value, f"it cannot be honoured; there are {', '.join(sorted(known))}")
        if match is not None and match[1].upper() not in listeners:
            raise ConfigError(key, value, f"{match[1]} is none of listeners: {', '.join(listeners).lower()}")


def _settings(properties: Mapping[str, str], prefix: str) -> tuple[tuple[str, Setting], ...]:
    found = []
    for name in NAMES:
        # A blank value counts: an empty ssl.endpoint.identification.algorithm switches the check of the host off.
        key = prefix + name if prefix + name in properties else name
        if key in properties:
            found.append((name, Setting(key, properties[key])))
    return tuple(found)
