"""Decides whether an append may be written to a table, from the commits that the table holds.

A commit is the name of an append (stream and number of the micro-batch) and the range of the source that its rows
cover, from ``start`` to ``end``. A table stores the commit atomically with the rows, so it always knows what it holds.

Invariant: each commit of a table starts where the one before it ended, whichever stream it came from. So no row is lost
or written twice when a checkpoint is lost or an older one is restored:

1. The table has a commit of this name. If it covers the same range, this is a repetition after a kill, and there is
   nothing to write. If it covers another range, the checkpoint used these numbers a second time: an error.
2. The table has no commit of this name. Then the new one must start where the newest one ended.

A table without commits gets no rows, because it may already hold the next ones. Offsets of the source are opaque here:
two are equal or not.

Source: Delta's ``txn`` action (the name alone); Spark's ``OffsetSeqLog`` (both, but a checkpoint gets lost).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pykraft.errors import UsageError

WAY_OUT = (
    "restore the checkpoint that belongs to the tables; or remove it and run the pipeline, which then says where the "
    "tables end; or write to another folder"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """An append: its stream, the number of its micro-batch, and the range of source offsets, as JSON values."""

    stream: str
    batch_id: int
    start: Mapping[str, Any]
    end: Mapping[str, Any]

    def as_json(self) -> str:
        """As text."""
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
                f"{folder}: micro-batch {asked.batch_id} of the checkpoint is {_told(asked)}, but the table holds "
                f"{_told(same)} under that number: the checkpoint is too old. To continue, {WAY_OUT}"
            )
        return False
    # 2. A new name must continue the table.
    if newest.end != asked.start:
        raise UsageError(
            f"{folder}: the next micro-batch of the checkpoint is {_told(asked)}, but the table ends "
            f"with {_told(newest)}: rows would be missing or duplicated. To continue, {WAY_OUT}"
        )
    return True


def _told(commit: Commit) -> str:
    return f"{json.dumps(commit.start)} to {json.dumps(commit.end)}"
