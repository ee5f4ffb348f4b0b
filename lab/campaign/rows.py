"""The files of a campaign: rows as JSON lines, which can be continued at any time and are added up in bounded memory.

Files are read one row at a time and strictly: a row that was read has the fields that are counted, with their types,
and a last line that a crash cut off is left out. Of each seed a digest of its row stays in memory, 8 bytes; seeds are
kept and sent as ranges, in their order. `RowFile` is the file of a run: a row is durable before the next result is
reported, and all its rows are of one scenario, version and source.

Invariant: a seed counts once for each version of the code, wherever its row is; two rows for one seed must agree,
because a seed gives the same world everywhere. Seeds of two versions are never added up.

Source: ours; FoundationDB's Joshua (many machines, one ensemble).
"""

from __future__ import annotations

import fcntl
import json
import os
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate, chain
from pathlib import Path
from typing import IO, Any, Final, TypeGuard, overload

from pykraft.errors import UsageError
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row

SEEDS_A_PAGE: Final = 256
NONE: Final = 0
_EMPTY: Final = array("q", bytes(8 * SEEDS_A_PAGE))
LINE_SIZE_BYTES_MAX: Final = 1024 * 1024
"""A row has about 1,000 bytes."""
_WHOLE: Final = frozenset({int})
_NAMES: Final = ("scenario", "version", "source")
_CANONICAL: Final = json.JSONEncoder(sort_keys=True)
IDENTITIES_MAX: Final = 1_000


class SeedRanges(Sequence[int]):
    """A sequence of seeds; its slices are sequences like it."""

    def __init__(self, ranges: Iterable[range]) -> None:
        """The ranges have step 1."""
        self.ranges = tuple(each for each in ranges if each)
        self._ends = list(accumulate(map(len, self.ranges)))

    @classmethod
    def of(cls, seeds: Iterable[int]) -> SeedRanges:
        """These seeds, in this order; those that follow each other are one range."""
        found: list[range] = []
        start = end = 0
        for seed in seeds:
            if seed != end:
                found.append(range(start, end))
                start = seed
            end = seed + 1
        return cls([*found, range(start, end)])

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.ranges)

    @overload
    def __getitem__(self, place: int) -> int: ...

    @overload
    def __getitem__(self, place: slice) -> SeedRanges: ...

    def __getitem__(self, place: int | slice) -> int | SeedRanges:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            assert step == 1, "parts are consecutive"
            return SeedRanges(self._between(start, stop))
        index = place + len(self) if place < 0 else place
        if not 0 <= index < len(self):
            raise IndexError(place)
        at = bisect_right(self._ends, index)
        return self.ranges[at][index - self._start(at)]

    def _start(self, at: int) -> int:
        return self._ends[at - 1] if at else 0

    def _between(self, start: int, stop: int) -> Iterator[range]:
        for at in range(bisect_right(self._ends, start), len(self.ranges)):
            begin = self._start(at)
            if begin >= stop:
                return
            yield self.ranges[at][max(0, start - begin) : stop - begin]


class SeedDigests:
    """Digests by seed."""

    def __init__(self) -> None:
        self._pages: dict[int, array[int]] = {}

    def __contains__(self, seed: int) -> bool:
        number, place = divmod(seed, SEEDS_A_PAGE)
        page = self._pages.get(number)
        return page is not None and page[place] != NONE

    def add(self, seed: int, digest: int) -> bool | None:
        """Add a digest, a signed 64-bit integer. True: it is new; False: it was known; None: another one was known."""
        digest = digest or 1  # 0 says that there is none
        number, place = divmod(seed, SEEDS_A_PAGE)
        page = self._pages.get(number)
        if page is None:
            page = self._pages[number] = array("q", _EMPTY)
        known = page[place]
        if known == NONE:
            page[place] = digest
            return True
        return False if known == digest else None

    def left_of(self, seeds: Iterable[int]) -> SeedRanges:
        """The seeds without a digest."""
        return SeedRanges.of(seed for seed in seeds if seed not in self)


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


class RowFile:
    """A file of rows, open for more."""

    def __init__(self, path: Path, identity: Identity, *, on_row: Callable[[Row], None]) -> None:
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
            self._read(on_row)
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

    def _read(self, on_row: Callable[[Row], None]) -> None:
        self._file.seek(0)
        for row in rows_of(self._path, self._measured(lines_of(self._path, self._file))):
            if self._is_new(row):
                on_row(row)
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


def summarize(paths: Sequence[Path]) -> list[CampaignSummary]:
    """A summary for each version, in the order in which they occur. Errors: UsageError; OSError."""
    found: dict[Identity, tuple[CampaignSummary, SeedDigests]] = {}
    for path in paths:
        with path.open("rb") as file:
            for row in rows_of(path, lines_of(path, file)):
                identity = identity_of(row)
                if identity not in found:
                    if len(found) == IDENTITIES_MAX:
                        raise UsageError(f"{path}: rows of more than {IDENTITIES_MAX:,} versions; give fewer files")
                    found[identity] = CampaignSummary(identity=identity), SeedDigests()
                summary, known = found[identity]
                is_new = known.add(row["seed"], digest_of(row))
                if is_new is None:
                    raise two_results(path, row)
                if is_new:
                    summary.add(row)
    return [summary for summary, _ in found.values()]
