"""Checks arguments of the application before they reach the node: a wrong one is the caller's error and no more.

Type checkers find such errors too, but not every program uses one, and the core relies on its types. Invariant: the
result is a plain int within its bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, TypeVar

from pykraft.errors import UsageError

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


def epoch_number(value: object) -> int:
    """An epoch; a negative one is accepted, as older than all others. Errors: UsageError."""
    return whole_number("epoch", value, least=-INT32_MAX, most=INT32_MAX)
