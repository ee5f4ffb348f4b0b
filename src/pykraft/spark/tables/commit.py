"""Decides whether an append may be written to a table, from the commits that the table holds.

A commit is the name of an append (stream and number of the micro-batch) and the range of the source that its rows
cover, from ``start`` to ``end``; both are stored atomically with the rows. Invariant: each commit of a table starts
where the one before it ended, so no row is lost or written twice when a checkpoint is lost or an older one is restored:

1. The table has a commit of this name. With the same range, this is a repetition after a kill, and there is nothing to
   write; with another, the checkpoint used these numbers a second time: an error.
2. The table has no commit of this name. Then the new one must start where the newest one ended.

A table without commits gets no rows, because it may already hold the next ones. Offsets are opaque here.

Delta deletes old entries of its log, so after a month of upkeep alone a table would forget what it holds. So each
commit of ours that is no append carries the newest append that it knew, and the version at which it looked.

Source: Delta's ``txn`` action (the name alone); Spark's ``OffsetSeqLog`` (both, but a checkpoint gets lost); the Delta
protocol (add actions, ``commitInfo``, ``delta.logRetentionDuration``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.transaction import AddAction

from pykraft.errors import UsageError
from pykraft.spark.tables.parquet_writer import ParquetFile

WAY_OUT = (
    "restore the checkpoint that belongs to the tables; or remove it and run the pipeline, which then says where the "
    "tables end; or write to another folder"
)


COMMIT: Final = "pykraft.commit"
"""The key in Delta's commit info of an append."""
CARRIED: Final = "pykraft.newest"
"""The key in Delta's commit info of our other commits: the newest append, and the version at which they looked."""
VERSIONS_FIRST: Final = 64
"""So many entries of the log are read first, and all only if those do not have what is wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An append: its stream, the number of its micro-batch, and the range of source offsets, as JSON values."""

    stream: str
    batch_id: int
    start: Mapping[str, Any]
    end: Mapping[str, Any]

    def as_json(self) -> str:
        return json.dumps({"stream": self.stream, "batch_id": self.batch_id, "start": self.start, "end": self.end})

    @classmethod
    def from_json(cls, text: str) -> Commit:
        """Parse that text. Errors: ValueError, KeyError and TypeError for other text."""
        found = json.loads(text)
        return cls(stream=found["stream"], batch_id=found["batch_id"], start=found["start"], end=found["end"])


def check_first(folder: Path, asked: Commit) -> None:
    """Reject a commit that cannot be the first of a table. Errors: UsageError."""
    if asked.batch_id > 0:
        raise UsageError(
            f"{folder}: the checkpoint is at micro-batch {asked.batch_id}, but the table with the earlier rows is "
            "gone: restore it, or write to another folder"
        )


def is_new(folder: Path, asked: Commit, *, same: Commit | None, newest: Commit | None) -> bool:
    """Whether to write these rows into an existing table; False if the table already has them.

    ``same`` is the table's commit with the name of ``asked``, and ``newest`` its last commit; None if there is none.

    Errors: UsageError if the table neither has these rows nor ends where they start.
    """
    if newest is None:
        raise UsageError(
            f"{folder}: the table does not record which part of the log it holds; an older pykraft or another program "
            "wrote it. Write to another folder"
        )
    if same is not None:
        # 1. A repetition, or a checkpoint that counts anew.
        if (same.start, same.end) != (asked.start, asked.end):
            raise UsageError(
                f"{folder}: micro-batch {asked.batch_id} of the checkpoint is {_span(asked)}, but the table holds "
                f"{_span(same)} under that number: the checkpoint is too old. To continue, {WAY_OUT}"
            )
        return False
    # 2. A new name must continue the table.
    if newest.end != asked.start:
        raise UsageError(
            f"{folder}: the next micro-batch of the checkpoint is {_span(asked)}, but the table ends "
            f"with {_span(newest)}: rows would be missing or duplicated. To continue, {WAY_OUT}"
        )
    return True


def _span(commit: Commit) -> str:
    return f"{json.dumps(commit.start)} to {json.dumps(commit.end)}"


def add_action(file: ParquetFile, *, data_change: bool = True) -> AddAction:
    """The action that adds this file; without ``data_change`` its rows were in the table before."""
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values={},
        modification_time=file.modified_ms,
        data_change=data_change,
        stats=file.statistics,
    )


def carried(table: DeltaTable) -> dict[str, str]:
    """What a commit that is no append adds to its commit info."""
    newest = newest_commit(table)
    if newest is None:
        return {}
    return {CARRIED: json.dumps({"version": table.version(), "commit": newest.as_json()})}


def newest_commit(table: DeltaTable) -> Commit | None:
    """The newest append; None if there is none."""
    return next(_commits(table), None)


def named_commit(table: DeltaTable, stream: str, batch_id: int) -> Commit | None:
    """The append of this name, if the number of the application transaction says that there was one.

    None also if Delta's log no longer has it.
    """
    done = table.transaction_version(stream)
    if done is None or done < batch_id:
        return None
    return next((each for each in _commits(table) if (each.stream, each.batch_id) == (stream, batch_id)), None)


def _commits(table: DeltaTable) -> Iterator[Commit]:
    """The appends that the log still knows, the newest first; one may come twice."""
    known: Commit | None = None
    known_version = -1
    for info in _versions(table):
        if known is not None and info["version"] <= known_version:
            # The carrier saw all appends from here on.
            yield known
            known = None
        if COMMIT in info:
            yield Commit.from_json(info[COMMIT])
        elif known is None and CARRIED in info:
            found = json.loads(info[CARRIED])
            known, known_version = Commit.from_json(found["commit"]), found["version"]
    if known is not None:
        yield known


def _versions(table: DeltaTable) -> Iterator[Mapping[str, Any]]:
    first = table.history(VERSIONS_FIRST)
    yield from first
    if len(first) == VERSIONS_FIRST:
        yield from table.history()[VERSIONS_FIRST:]
