"""Refuses what is not a list of records, for every call that takes records.

A call that iterated over a single record would append its characters, bytes, keys or fields as records of their own,
and type checkers do not notice: a str is a sequence of str. Invariant: whatever has an order and is not itself one
record is accepted, generators too.

Source: ours.
"""

from __future__ import annotations

from collections import UserString
from collections.abc import Mapping

from pykraft.errors import UsageError


def check_records(records: object) -> None:
    """Refuse one record where several are expected, and what has no order. Errors: UsageError."""
    if type(records) in (list, tuple):
        return
    kind = type(records).__name__
    # Iterating over these would append each character, byte, key or field as a record of its own.
    if isinstance(records, str | UserString | Mapping) or hasattr(records, "_fields") or _is_bytes_like(records):
        raise UsageError(f"give a list of records, even for one: [record], not a single {kind}")
    # The replicas would agree on an order that nobody chose.
    if isinstance(records, set | frozenset):
        raise UsageError(f"a {kind} has no order: give a list of records, for instance sorted(records)")


def _is_bytes_like(records: object) -> bool:
    """True for bytes in any form: bytearray, memoryview, mmap, an array of bytes."""
    try:
        # An array of larger numbers may well be a list of records.
        return memoryview(records).itemsize == 1  # type: ignore[arg-type]  # this finds out whether it may be given
    except TypeError:
        return False
