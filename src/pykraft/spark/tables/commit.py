"""Which append a table was given, and which one it may be given next.

A commit is an append's name (the stream, and the number of its micro-batch) and the part of the source that its rows
are, from ``start`` to ``end``. A table keeps the commit beside the rows, in the same atomic step, so it always knows
what it holds.

Invariant: the commits of a table follow each other: each starts where the one before it ended, whichever stream it
came from. So rows can neither be left out nor be there twice when a checkpoint is lost, or an older one is restored:

1. The table has a commit of this name. If it holds the same part of the source, this is a repetition after a kill, and
   there is nothing to write. If it holds another part, then the checkpoint counted these numbers a second time.
2. It has none of this name: then the new one must start where the newest one ended.

A table that cannot say what it holds is not written to: whatever came next might be there already. The module refuses
to know what an offset of the source means: two are equal or not.

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
    """An append: its stream, the number of its micro-batch, and the source's offsets, as JSON values."""

    stream: str
    batch_id: int
    start: Mapping[str, Any]
    end: Mapping[str, Any]

    def as_json(self) -> str:
        """As text."""
        return json.dumps({"stream": self.stream, "batch_id": self.batch_id, "start": self.start, "end": self.end})

    @classmethod
    def from_json(cls, text: str) -> Commit:
        """From that text. Errors: ValueError, KeyError and TypeError when it is not."""
        found = json.loads(text)
        return cls(stream=found["stream"], batch_id=found["batch_id"], start=found["start"], end=found["end"])


def check_first(folder: Path, asked: Commit) -> None:
    """Refuse a commit that cannot be a table's first. Errors: UsageError."""
    if asked.batch_id > 0:
        raise UsageError(
            f"{folder}: the checkpoint is at micro-batch {asked.batch_id}, and the table with all before it is gone: "
            "restore it, or write to another folder"
        )


def is_new(folder: Path, asked: Commit, *, same: Commit | None, newest: Commit | None) -> bool:
    """Whether these rows are to be written into a table that exists; False when it has them already.

    ``same`` is the table's commit with the name of ``asked``, and ``newest`` the one that came last; None where there
    is none.

    Errors: UsageError when they are neither what the table has nor what comes next.
    """
    if newest is None:
        raise UsageError(
            f"{folder}: the table does not tell which part of the log it holds; an older pykraft wrote it, or another "
            "program. Write to another folder"
        )
    if same is not None:
        if (same.start, same.end) != (asked.start, asked.end):
            raise UsageError(
                f"{folder}: micro-batch {asked.batch_id} of the checkpoint is {_told(asked)}, and the table holds "
                f"{_told(same)} under that number: the checkpoint is an older one. To go on, {WAY_OUT}"
            )
        return False
    if newest.end != asked.start:
        raise UsageError(
            f"{folder}: the next micro-batch of the checkpoint is {_told(asked)}, and the table holds "
            f"{_told(newest)} last: rows would be missing, or be there twice. To go on, {WAY_OUT}"
        )
    return True


def _told(commit: Commit) -> str:
    return f"{json.dumps(commit.start)} to {json.dumps(commit.end)}"
