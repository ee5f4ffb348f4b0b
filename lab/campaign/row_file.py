"""The file of a campaign that is running: rows that can be continued at any time, in bounded memory.

A row is durable before the next result is reported. When a file is continued, its rows are read once, and a last line
that a crash cut off is dropped; of each seed 8 bytes stay in memory. Invariant: all rows of a file are of one scenario,
version and source, and a seed has one result.

Source: ours; FoundationDB's Joshua (many machines, one ensemble).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from lab.campaign.rows import digest_of, lines_of, rows_of
from lab.campaign.seed_digests import SeedDigests
from lab.campaign.seed_ranges import SeedRanges
from pykraft.errors import UsageError
from pykraft.sim.run.campaign import Identity, Row


class RowFile:
    """A file of rows, open for more."""

    def __init__(self, path: Path, identity: Identity, *, tell: Callable[[Row], None]) -> None:
        """Read the file, with a call of ``tell`` for the row of each seed.

        Errors: UsageError for rows of another campaign, or while another run writes; OSError.
        """
        self._expected = asdict(identity)
        self._path = path
        self._known = SeedDigests()
        self._size_bytes = 0
        self._file = path.open("a+b")
        try:
            self._own()
            self._read(tell)
        except BaseException:
            self._file.close()
            raise

    def add(self, row: Row) -> None:
        """Append one row and make it durable. Errors: UsageError for a row of another campaign; OSError."""
        self._is_new(row)
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def left_of(self, seeds: Iterable[int]) -> SeedRanges:
        """The seeds that have no row yet."""
        return self._known.left_of(seeds)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _own(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{self._path}: another run writes to it; wait for it, or name another file") from error

    def _read(self, tell: Callable[[Row], None]) -> None:
        self._file.seek(0)
        for row in rows_of(self._path, self._measured(lines_of(self._path, self._file))):
            if self._is_new(row):
                tell(row)
        # What follows the last whole line was cut off by a crash.
        self._file.truncate(self._size_bytes)

    def _measured(self, lines: Iterator[bytes]) -> Iterator[bytes]:
        for line in lines:
            self._size_bytes += len(line)
            yield line

    def _is_new(self, row: Row) -> bool:
        for name, value in self._expected.items():
            if row[name] != value:
                story = f"{self._path}: seed {row['seed']} is a result of {name} {row[name]}, not of {value}"
                raise UsageError(f"{story}: results of different runs are not mixed, give another file")
        is_new = self._known.add(row["seed"], digest_of(row))
        if is_new is None:
            raise two_results(self._path, row)
        return is_new


def two_results(path: Path, row: Row) -> UsageError:
    """The error for a seed with two different rows."""
    return UsageError(f"{path}: seed {row['seed']} has another row already: one of the two is not true")
