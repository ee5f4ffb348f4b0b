"""Who is at the other end of a connection, as Kafka names it: ``User:`` and the name that was proven.

Invariant: a connection has exactly one principal. It is `ANONYMOUS` unless the other end has proven another name.

Source: Kafka's ``KafkaPrincipal``, ``DefaultKafkaPrincipalBuilder`` and ``SslPrincipalMapper``
(``ssl.principal.mapping.rules``, KIP-371); RFC 2253 for distinguished names; RFC 6125 for names of hosts.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

PRINCIPAL_TYPE: Final = "User"
"""Kafka's kind of principal; there is no other here."""

_SHORT: Final = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_SPECIAL: Final = re.compile(r'([,+"\\<>;])|^([ #])|( )$')


@dataclass(frozen=True, slots=True)
class Principal:
    """A name that was proven; its text is Kafka's, ``User:CN=node1``.

    ``hosts`` are the names and addresses in its certificate, if it has one.
    """

    name: str
    hosts: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        return f"{PRINCIPAL_TYPE}:{self.name}"

    def is_valid_for(self, host: str) -> bool:
        """Whether its certificate is one for this host, as whoever dials it there would find."""
        wanted = _normal(host)
        found = set(map(_normal, self.hosts))
        if ":" in wanted or wanted.replace(".", "").isdecimal():  # an address, which no wildcard matches
            return wanted in found
        return wanted in found or f"*.{wanted.partition('.')[2]}" in found


class RemoteEnd(Protocol):
    """The other end of a connection: who it is, as far as that was proven, and where."""

    @property
    def principal(self) -> Principal:
        """Who it is."""

    @property
    def address(self) -> str:
        """Its numeric address; empty if it is not known."""


@dataclass(frozen=True, slots=True)
class KnownEnd:
    """A `RemoteEnd` as a value."""

    principal: Principal
    address: str = ""


ANONYMOUS: Final = Principal("ANONYMOUS")
"""Whoever proves nothing."""
UNKNOWN_END: Final = KnownEnd(ANONYMOUS)


def principal_of(certificate: Mapping[str, Any] | None) -> Principal:
    """The subject of a peer's verified certificate, see `ssl.SSLSocket.getpeercert`; ANONYMOUS without one."""
    if not certificate:
        return ANONYMOUS
    hosts = tuple(text for kind, text in certificate.get("subjectAltName", ()) if kind in ("DNS", "IP Address"))
    if not hosts:
        hosts = tuple(text for part in certificate["subject"] for key, text in part if key == "commonName")
    # RFC 2253 begins with the last part.
    parts = (
        "+".join(f"{_SHORT.get(key, key)}={_escaped(text)}" for key, text in part) for part in certificate["subject"]
    )
    return Principal(",".join(reversed(list(parts))), hosts)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)


def _normal(host: str) -> str:
    """The same host for all ways to write it."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return host.lower().rstrip(".")


_RULE: Final = re.compile(r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|$)")
_TOKEN: Final = re.compile(r"\\(.)|\$(\d+)")
_CASES: Final[Mapping[str, Callable[[str], str]]] = {"": str, "L": str.lower, "U": str.upper}


class PrincipalMapping:
    """Names for certificates, by ``ssl.principal.mapping.rules``; the first rule that applies counts."""

    def __init__(self, rules: str = "") -> None:
        """Errors: ValueError for what is no rule."""
        self._rules: list[Callable[[str], str | None]] = []
        position, rules = 0, rules.strip() or "DEFAULT"
        while position < len(rules):
            match = _RULE.match(rules, position)
            if match is None:
                raise ValueError(
                    f"{rules[position:]} is not DEFAULT or RULE:PATTERN/REPLACEMENT/ with L or U behind it"
                )
            try:
                self._rules.append(str if match[1] else _rule(re.compile(match[2]), match[3], _CASES[match[4]]))
            except re.error as error:
                raise ValueError(f"{match[2]} is no regular expression: {error}") from error
            position = match.end()

    def named(self, principal: Principal) -> Principal | None:
        """The same principal under the name of the first rule that applies; None if none does."""
        if principal is ANONYMOUS:
            return principal
        for rule in self._rules:
            name = rule(principal.name)
            if name is not None:
                return replace(principal, name=name)
        return None


def _rule(pattern: re.Pattern[str], replacement: str, case: Callable[[str], str]) -> Callable[[str], str | None]:
    def expanded(match: re.Match[str]) -> str:
        return _TOKEN.sub(lambda token: token[1] or _group(match, token[2]), replacement)

    return lambda name: case(pattern.sub(expanded, name)) if pattern.fullmatch(name) else None


def _group(match: re.Match[str], digits: str) -> str:
    """As Java reads ``$12``: the group with most of the digits that there is, and the other digits as they are."""
    for size in range(len(digits), 0, -1):
        if int(digits[:size]) <= (match.re.groups or 0):
            return (match[int(digits[:size])] or "") + digits[size:]
    return f"${digits}"
