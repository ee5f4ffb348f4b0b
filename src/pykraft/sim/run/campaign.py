"""A campaign: result rows for ranges of seeds, in files that can come from many machines and be continued at any time.

A file has one JSON object per line and seed. Every row carries the `Identity` of its run; rows of another scenario,
version or source are rejected, never mixed. A row is durable before the next result is reported. When a file is
continued, a last line that a crash cut off is dropped. A campaign counts each seed once, and two rows for one seed must
agree, because a seed gives the same world everywhere.

Source: ours; FoundationDB's Joshua (many machines, one ensemble).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from dataclasses import fields as dataclass_fields
from hashlib import blake2b
from pathlib import Path
from typing import Any

from pykraft import __version__
from pykraft.errors import UsageError
from pykraft.sim.run.outcome import Outcome
from pykraft.sim.run.simulation import Failure
from pykraft.sim.scenario.scenario import Scenario

Row = Mapping[str, Any]
PACKAGE = Path(__file__).resolve().parents[2]
PARTS = ("core", "host", "log", "protocol", "rpc", "sim", "snapshot")
"""The code that decides a world, together with the modules next to these folders."""
DIGEST_SIZE_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What all rows of one campaign have in common."""

    scenario: str
    """Digest of all fields of the scenario."""
    version: str
    source: str
    """Digest of the code that decides a world."""

    @classmethod
    def of(cls, scenario: Scenario) -> Identity:
        """The identity of this code with this scenario."""
        fields = json.dumps(asdict(scenario), sort_keys=True, default=dict).encode()
        return cls(scenario=_digest([fields]), version=__version__, source=source_digest())


def source_digest(package: Path = PACKAGE) -> str:
    """Digest of the code; the same wherever it is installed."""
    paths = [path for part in PARTS for path in package.joinpath(part).rglob("*.py")]
    paths += package.glob("*.py")
    named = sorted((path.relative_to(package).as_posix(), path) for path in paths)
    return _digest(piece for name, path in named for piece in (name.encode(), path.read_bytes()))


def _digest(pieces: Iterable[bytes]) -> str:
    digest = blake2b(digest_size=DIGEST_SIZE_BYTES)
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big") + piece)
    return digest.hexdigest()


def row_of(result: Outcome | Failure, identity: Identity) -> Row:
    """The row of one seed; a failure's row omits trace and story, because replaying the seed gives them again."""
    fields = {field.name: getattr(result, field.name) for field in dataclass_fields(result)}
    if isinstance(result, Failure):
        del fields["trace"], fields["story"], fields["harm"]
    return {"seed": result.seed, "failed": isinstance(result, Failure), **asdict(identity), **fields}


class Results:
    """A file of rows that can be continued."""

    def __init__(self, path: Path, identity: Identity) -> None:
        """Read the rows. Errors: UsageError for rows of another campaign, or while another run writes; OSError."""
        self._identity = identity
        self._path = path
        self._file = path.open("a+b")
        try:
            self._own()
            self.rows = self._read()
        except BaseException:
            self._file.close()
            raise

    def _own(self) -> None:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(f"{self._path}: another run writes to it; wait for it, or name another file") from error

    def _read(self) -> dict[int, Row]:
        self._file.seek(0)
        content = self._file.read()
        whole = _whole_lines(content)
        rows = _merged([(self._path, _rows(self._path, whole))], self._identity)
        if len(whole) < len(content):
            self._file.truncate(len(whole))
        return rows

    def add(self, row: Row) -> None:
        """Append one row and make it durable. Errors: UsageError for a row of another campaign."""
        _merged([(self._path, [row])], self._identity)
        self.rows[row["seed"]] = row
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def left_of(self, seeds: Sequence[int]) -> list[int]:
        """The seeds that have no row yet."""
        return [seed for seed in seeds if seed not in self.rows]


def merge(paths: Sequence[Path]) -> dict[int, Row]:
    """The rows of several files, by seed. Errors: UsageError when they are not of one campaign; OSError."""
    return _merged([(path, _rows(path, _whole_lines(path.read_bytes()))) for path in paths], None)


def _whole_lines(content: bytes) -> bytes:
    return content[: content.rfind(b"\n") + 1]


def _merged(files: Iterable[tuple[Path, Iterable[Row]]], identity: Identity | None) -> dict[int, Row]:
    merged: dict[int, Row] = {}
    first = asdict(identity) if identity is not None else None
    for path, rows in files:
        for row in rows:
            found = {field.name: row[field.name] for field in dataclass_fields(Identity)}
            first = first or found
            for name, value in found.items():
                if value != first[name]:
                    story = f"{path}: seed {row['seed']} is a result of {name} {value}, not of {first[name]}"
                    raise UsageError(f"{story}: results of different runs are not mixed, give another file")
            known = merged.setdefault(row["seed"], row)
            if known != row:
                raise UsageError(f"{path}: seed {row['seed']} has another row already: one of the two is not true")
    return merged


def _rows(path: Path, content: bytes) -> Iterator[Row]:
    for number, line in enumerate(content.splitlines(), start=1):
        try:
            row = json.loads(line)
        except ValueError:
            row = None
        is_row = isinstance(row, dict) and isinstance(row.get("seed"), int) and isinstance(row.get("failed"), bool)
        if not is_row or any(field.name not in row for field in dataclass_fields(Identity)):
            raise UsageError(f"{path}, line {number}: this is no result of `sim run --out`")
        yield row
