"""Checks arguments of the application before they reach the node: a wrong one is the caller's error and no more.

Type checkers find such errors too, but not every program uses one, and the core relies on its types. Invariant: the
result is a plain int within its bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
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


def check_records(records: object) -> None:
    """Refuse one record where several are expected, and what has no order. Errors: UsageError."""
    kind = type(records).__name__
    # Iterating over these would append each character, byte, key or field as a record of its own.
    if isinstance(records, str | bytes | bytearray | memoryview | Mapping) or hasattr(records, "_fields"):
        raise UsageError(f"give a list of records, even for one: [record], not a single {kind}")
    # The replicas would agree on an order that nobody chose.
    if isinstance(records, set | frozenset):
        raise UsageError(f"a {kind} has no order: give a list of records, for instance sorted(records)")
