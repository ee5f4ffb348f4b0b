"""Where a client begins: a list of nodes, as a person writes it.

Owns the text form ``host:port,host:port``. Invariant: what was parsed can be dialed, and there is at least one. It
refuses to know which of them are alive.

Source: Kafka's ``ClientUtils.parseAndValidateAddresses``.
"""

from __future__ import annotations

import re
from typing import Final

from pykraft.errors import UsageError
from pykraft.types import PORT_MAX, Endpoint

ENDPOINTS_MAX: Final = 100
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s:\[\]@/,]+)):(?P<port>[0-9]{1,5})"
)


def parse_bootstrap(option: str, text: str) -> tuple[Endpoint, ...]:
    """The nodes of a list, in its order, each once; ``option`` is what the errors call it.

    Errors: UsageError for an entry that is not host:port (IPv6 in brackets), and for an empty or endless list.
    """
    endpoints = [_endpoint(option, item.strip()) for item in text.split(",") if item.strip()]
    if not endpoints:
        raise UsageError(f"{option} {text!r}: give at least one host:port")
    if len(endpoints) > ENDPOINTS_MAX:
        raise UsageError(f"{option}: {len(endpoints)} nodes, at most {ENDPOINTS_MAX} are asked; a few are enough")
    return tuple(dict.fromkeys(endpoints))


def _endpoint(option: str, item: str) -> Endpoint:
    match = _ADDRESS.fullmatch(item)
    endpoint = Endpoint("", 0) if match is None else Endpoint(match["ipv6"] or match["host"], int(match["port"]))
    if not endpoint.can_be_dialed:
        raise UsageError(f"{option} {item!r}: a node is host:port (IPv6 in brackets) with a port from 1 to {PORT_MAX}")
    return endpoint
