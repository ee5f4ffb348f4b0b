"""The files of a campaign: rows as JSON lines, which can be continued at any time and are added up in bounded memory.

Files are read one row at a time and strictly: a row that was read has the fields that are counted, with their types,
and a last line that a crash cut off is left out. Of each seed only a digest of its row stays in memory. `RowFile` is
the file of a run: a row is durable before the next result is reported, and all its rows are of one scenario, version
and source.

Invariant: a seed counts once for each version of the code, wherever its row is; two rows for one seed must agree,
because a seed gives the same world everywhere. Seeds of two versions are never added up.

Source: ours; FoundationDB's Joshua (many machines, one ensemble).
"""

import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final, TypeGuard

from pykraft.errors import UsageError
from pykraft.sim.run.campaign import CampaignSummary, Identity, Row

LINE_SIZE_BYTES_MAX: Final = 1024 * 1024
"""A row has about 1,000 bytes."""
_WHOLE: Final = frozenset({int})
_NAMES: Final = ("scenario", "version", "source")
_CANONICAL: Final = json.JSONEncoder(sort_keys=True)
IDENTITIES_MAX: Final = 1_000


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
        self._known: dict[int, int] = {}
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

    def left_of(self, seeds: Iterable[int]) -> list[int]:
        return [seed for seed in seeds if seed not in self._known]

    def close(self) -> None:
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
        return note(self._known, row, self._path)


def note(digests: dict[int, int], row: Row, path: Path) -> bool:
    """Note the digest of a row by its seed; False if it was known. Errors: UsageError if another one was."""
    digest, count = digest_of(row), len(digests)
    if digests.setdefault(row["seed"], digest) != digest:
        raise UsageError(f"{path}: seed {row['seed']} has another row already: one of the two is not true")
    return len(digests) > count


def summarize(paths: Sequence[Path]) -> list[CampaignSummary]:
    """A summary for each version, in the order in which they occur. Errors: UsageError; OSError."""
    found: dict[Identity, tuple[CampaignSummary, dict[int, int]]] = {}
    for path in paths:
        with path.open("rb") as file:
            for row in rows_of(path, lines_of(path, file)):
                identity = identity_of(row)
                if identity not in found:
                    if len(found) == IDENTITIES_MAX:
                        raise UsageError(f"{path}: rows of more than {IDENTITIES_MAX:,} versions; give fewer files")
                    found[identity] = CampaignSummary(identity=identity), {}
                summary, known = found[identity]
                if note(known, row, path):
                    summary.add(row)
    return [summary for summary, _ in found.values()]
