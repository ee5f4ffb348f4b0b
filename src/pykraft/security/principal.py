"""Who is at the other end of a connection, as Kafka names it: ``User:`` and the name that was proven.

Invariant: a connection has exactly one principal. It is `ANONYMOUS` unless the other end has proven another name.

Source: Kafka's ``KafkaPrincipal``, ``DefaultKafkaPrincipalBuilder``; RFC 2253 for distinguished names.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

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
    """A name that was proven; its text is Kafka's, ``User:CN=node1``."""

    name: str

    def __str__(self) -> str:
        return f"User:{self.name}"


ANONYMOUS: Final = Principal("ANONYMOUS")
"""Whoever proves nothing."""


def principal_of(certificate: Mapping[str, Any] | None) -> Principal:
    """The subject of a peer's verified certificate, see `ssl.SSLSocket.getpeercert`; ANONYMOUS without one."""
    if not certificate:
        return ANONYMOUS
    # RFC 2253 begins with the last part.
    parts = (
        "+".join(f"{_SHORT.get(key, key)}={_escaped(text)}" for key, text in part) for part in certificate["subject"]
    )
    return Principal(",".join(reversed(list(parts))))


def _escaped(text: str) -> str:
    return _SPECIAL.sub(lambda match: "\\" + match[0], text)
