"""Refuses what is not a list of records, for every call that takes records.

A call that iterated over a single record would append its characters, bytes, keys or fields as records of their own,
and type checkers do not notice: a str is a sequence of str. Invariant: whatever has an order and is not itself one
record is accepted, generators too.

Source: ours.
"""

from collections import UserString
from collections.abc import Mapping
from typing import Final

from pykraft.errors import UsageError

SHOWN_CHARS_MAX: Final = 100


def check_records(records: object, *, is_async_allowed: bool = False) -> None:
    """Refuse one record where several are expected, and what has no order. Errors: UsageError.

    ``is_async_allowed``: an asynchronous generator is accepted, too.
    """
    if type(records) in (list, tuple):
        return
    kind = type(records).__name__
    # Iterating over these would append each character, byte, key or field as a record of its own.
    if isinstance(records, str | UserString | Mapping) or hasattr(records, "_fields") or _is_bytes_like(records):
        raise UsageError(f"give a list of records, even for one: [record], not a single {kind}")
    if not (is_async_allowed and hasattr(type(records), "__aiter__")) and not _is_iterable(records):
        raise UsageError(f"records = {_shortly(records)}: give a list of records, even for one: [record]")
    # The replicas would agree on an order that nobody chose.
    if isinstance(records, set | frozenset):
        raise UsageError(f"a {kind} has no order: give a list of records, for instance sorted(records)")


def _is_iterable(records: object) -> bool:
    """True for what ``for`` accepts. Nothing is called, since a generator of the application may begin to run then."""
    return hasattr(type(records), "__iter__") or hasattr(type(records), "__getitem__")


def _shortly(value: object) -> str:
    """The value as Python writes it; only its beginning if that is long."""
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[:SHOWN_CHARS_MAX]}…"


def _is_bytes_like(records: object) -> bool:
    """True for bytes in any form: bytearray, memoryview, mmap, an array of bytes."""
    try:
        # An array of larger numbers may well be a list of records.
        return memoryview(records).itemsize == 1  # type: ignore[arg-type]  # this finds out whether it may be given
    except TypeError:
        return False
