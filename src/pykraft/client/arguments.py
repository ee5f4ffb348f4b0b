"""Checks arguments of the application before they reach the node: a wrong one is the caller's error and no more.

Type checkers find such errors too, but not every program uses one, and the core relies on its types. Invariant: the
result is a plain int within its bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from pykraft.errors import UsageError
from pykraft.types import Endpoint

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
