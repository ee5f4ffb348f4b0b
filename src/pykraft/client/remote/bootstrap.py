"""The bootstrap list of a client, as a person writes it: ``host:port,host:port``.

Invariant: every parsed entry can be dialed, and there is at least one.

Source: Kafka's ``ClientUtils.parseAndValidateAddresses``.
"""

from __future__ import annotations

import re
from typing import Final

from pykraft.errors import UsageError
from pykraft.text.words import counted
from pykraft.types import PORT_MAX, Endpoint

ENDPOINTS_MAX: Final = 100
_ADDRESS: Final = re.compile(
    r"(?:\[(?P<ipv6>[0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|(?P<host>[^\s:\[\]@/,]+)):(?P<port>[0-9]{1,5})"
)


def parse_bootstrap(option: str, text: str) -> tuple[Endpoint, ...]:
    """The nodes of a list, in order and without duplicates; errors call the option ``option``.

    Errors: UsageError for an entry that is not host:port (IPv6 in brackets), and for an empty or too long list.
    """
    if not isinstance(text, str):
        raise UsageError(f"{option} = {text!r}: it is a text, host:port,…")
    endpoints = [_endpoint(option, item.strip()) for item in text.split(",") if item.strip()]
    if not endpoints:
        raise UsageError(f"{option} {text!r}: give at least one host:port")
    if len(endpoints) > ENDPOINTS_MAX:
        raise UsageError(
            f"{option}: {counted(len(endpoints), 'node')}, at most {ENDPOINTS_MAX} are contacted; a few are enough"
        )
    return tuple(dict.fromkeys(endpoints))


def _endpoint(option: str, item: str) -> Endpoint:
    match = _ADDRESS.fullmatch(item)
    endpoint = Endpoint("", 0) if match is None else Endpoint(match["ipv6"] or match["host"], int(match["port"]))
    if not endpoint.can_be_dialed:
        raise UsageError(f"{option} {item!r}: a node is host:port (IPv6 in brackets) with a port from 1 to {PORT_MAX}")
    return endpoint
