"""Checks arguments of the application before they reach the node: a wrong one is the caller's error and no more.

The core relies on its types, and not every program has a type checker. Invariants: a number is a plain int within its
bounds; a bootstrap list has at least one entry, and each can be dialed.

Source: Kafka's ``ClientUtils.parseAndValidateAddresses``.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias, TypeVar

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


T = TypeVar("T")
Records: TypeAlias = Sequence[T] | Iterator[T]
"""Records in the order in which they are appended. Not Iterable: type checkers refuse a dict or a set."""

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1


def whole_number(name: str, value: object, *, least: int, most: int = INT64_MAX) -> int:
    """The value, if it is an int from ``least`` to ``most``, both inclusive. Errors: UsageError."""
    # Not isinstance: a bool or another subclass of int is refused as well.
    if type(value) is not int or not least <= value <= most:
        raise UsageError(f"{name} = {value!r}: it is a whole number from {least} to {most}")
    return value


def nodes_to_contact(name: str, value: object) -> list[Endpoint]:
    """The nodes that a client contacts first, at least one, without duplicates. Errors: UsageError."""
    # A text is a sequence, too, of characters.
    if not isinstance(value, Sequence) or not all(isinstance(each, Endpoint) for each in value):
        raise UsageError(
            f"{name} = {value!r}: it is a list of Endpoint; pykraft.client.parse_bootstrap makes one of text"
        )
    if not value:
        raise UsageError(f"the {name} list is empty: give at least one node of the quorum")
    return list(dict.fromkeys(value))


def truth(name: str, value: object) -> bool:
    """True or False. Any other object would count as one of them, "no" as True. Errors: UsageError."""
    if not isinstance(value, bool):
        raise UsageError(f"{name} = {value!r}: it is True or False")
    return value


def epoch_number(value: object) -> int:
    """An epoch; a negative one is accepted, as older than all others. Errors: UsageError."""
    return whole_number("epoch", value, least=-INT32_MAX, most=INT32_MAX)
