"""Commits that tests give to appends."""

from __future__ import annotations

from pykraft.spark.tables.commit import Commit


def commit(batch_id: int, *, stream: str = "s", start: int | None = None, end: int | None = None) -> Commit:
    """A micro-batch of ten offsets, unless others are given."""
    begin = 10 * batch_id if start is None else start
    return Commit(
        stream=stream,
        batch_id=batch_id,
        start={"cluster": "c", "offset": begin},
        end={"cluster": "c", "offset": begin + 10 if end is None else end},
    )
