"""What pykraft writes into the log of a Delta table and reads from it: add actions, and the commit of each append.

An append's commit is in Delta's commit info. Other commits may stand between appends: upkeep, added columns, and those
of other programs. Delta deletes old entries of its log, so a table that only had upkeep for a month would forget what
it holds. So each commit of ours that is no append carries the newest append that it knew, and the version at which it
looked; appends that were committed in between come after that version.

Invariant: the newest append is found as long as one of these two entries is in the log. Nothing here needs Spark.

Source: the Delta protocol (add actions, ``commitInfo``, ``delta.logRetentionDuration``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from deltalake import DeltaTable
from deltalake.transaction import AddAction

from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.parquet_writer import ParquetFile

COMMIT: Final = "pykraft.commit"
"""The key in Delta's commit info of an append."""
CARRIED: Final = "pykraft.newest"
"""The key in Delta's commit info of our other commits: the newest append, and the version at which they looked."""
VERSIONS_FIRST: Final = 64
"""So many entries of the log are read first, and all only if those do not have what is wanted."""


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
    """The entries of the log, the newest first."""
    first = table.history(VERSIONS_FIRST)
    yield from first
    if len(first) == VERSIONS_FIRST:
        yield from table.history()[VERSIONS_FIRST:]
