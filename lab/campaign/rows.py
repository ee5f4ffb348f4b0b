"""Reads the rows of campaign files, one at a time: JSON lines, strictly.

Invariant: a row that was read has the fields that are counted, with their types. A last line that a crash cut off is
left out. Nothing is kept, so a file of any size can be read, also from a pipe.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any, Final, TypeGuard

from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity, Row

LINE_SIZE_BYTES_MAX: Final = 1024 * 1024
"""A row has about 1,000 bytes."""
_WHOLE: Final = frozenset({int})
_NAMES: Final = ("scenario", "version", "source")
_CANONICAL: Final = json.JSONEncoder(sort_keys=True)


def lines_of(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """The whole lines of an open file. Errors: UsageError for a line that is too long; OSError."""
    number = 0
    while line := file.readline(LINE_SIZE_BYTES_MAX + 1):
        number += 1
        if line.endswith(b"\n"):
            yield line
        elif len(line) > LINE_SIZE_BYTES_MAX:
            raise UsageError(f"{path}, line {number}: this is no result of `sim run --out`: it is too long")


def rows_of(path: Path, lines: Iterator[bytes]) -> Iterator[Row]:
    """A row for each line. Errors: UsageError that names file and line."""
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not _is_row(row):
            raise UsageError(f"{path}, line {number}: this is no result of `sim run --out`")
        yield row


def digest_of(row: Row) -> int:
    """A digest of all that the row says, for comparisons within this process: a signed 64-bit integer."""
    return hash(_CANONICAL.encode(row))


def identity_of(row: Row) -> Identity:
    """Whose result the row is."""
    return Identity(scenario=row["scenario"], version=row["version"], source=row["source"])


def _is_row(row: object) -> TypeGuard[dict[str, Any]]:
    if not isinstance(row, dict) or type(row.get("seed")) is not int or type(row.get("failed")) is not bool:
        return False
    states = row.get("states", {})
    return (
        all(isinstance(row.get(name), str) for name in _NAMES)
        and isinstance(row.get("at_us" if row["failed"] else "virtual_ms"), int)
        and (not row["failed"] or isinstance(row.get("reason"), str))
        and isinstance(row.get("committed", 0), int)
        and isinstance(row.get("acknowledged", 0), int)
        and _are_counts(row.get("faults"))
        and isinstance(states, dict)
        and all(map(_are_counts, states.values()))
    )


def _are_counts(counts: object) -> TypeGuard[Mapping[str, int]]:
    return isinstance(counts, dict) and _WHOLE.issuperset(map(type, counts.values()))
