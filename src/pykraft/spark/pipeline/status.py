"""Reads the progress of a pipeline from its folder, and whether the checkpoint there fits the tables.

The files of a checkpoint are Spark's: ``metadata`` names the stream; ``offsets`` has a file for each micro-batch (a
version, metadata, then the end offset of each source as JSON), written before it starts, and ``commits`` has one when
it is done. Invariant: a stream that would lose or duplicate rows does not start; only committed appends are reported.
This module writes nothing and needs neither Spark nor Java.

Source: Spark's ``OffsetSeqLog``, ``CommitLog`` and ``StreamMetadata``.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable

from pykraft.errors import UsageError
from pykraft.object_storage import shared_folder
from pykraft.object_storage.files import Files
from pykraft.spark.data_source.options import parse_options
from pykraft.spark.pipeline.upkeep import refuse_parquet
from pykraft.spark.tables.commit import end_offset, offsets_in
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.names import CHECKPOINT, TABLES
from pykraft.spark.tables.table_folder import open_table, tables_at

METADATA, COMMITS = "metadata", "commits"


def last_batch_id(checkpoint: Path) -> int | None:
    """The number of the last finished micro-batch; None before the first."""
    names = [path.name for path in shared_folder.entries(checkpoint / COMMITS)]
    return max((int(name) for name in names if name.isdigit()), default=None)


def check_belongs(tables: DeltaTables, checkpoint: Path, source: Mapping[str, str]) -> None:
    """Reject a new stream beside existing tables, unless the user gives a start offset.

    The first append checks that this is where the tables end (`pykraft.spark.tables.commit`).

    Errors: UsageError that names the end of the tables, if all end at the same offset.
    """
    made = [name for name in TABLES if tables.has(name)]
    start = parse_options(source).start
    has_checkpoint = shared_folder.content(checkpoint / METADATA) is not None
    if not made or has_checkpoint or start.offset is not None or start.by_replica:
        return
    newest = [tables.newest(name) for name in made]
    ends = {json.dumps(None if commit is None else commit.end) for commit in newest}
    end = newest[0].end if newest[0] is not None and len(ends) == 1 else None
    go_on = f"or continue at the end of the tables, --from {_option(end)}" if end else "the tables' ends differ"
    raise UsageError(
        f"{tables.root}: there are tables, but the checkpoint that records their end is gone; restore "
        f"{checkpoint}, {go_on}; or write to another folder"
    )


def _option(end: Mapping[str, Any]) -> str:
    return f"'{json.dumps(offsets_in(end))}'" if "replicas" in end else str(end["offset"])


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One table: its rows, files and bytes."""

    rows: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """All tables; the number of the last finished micro-batch (None before the first), and where it ended."""

    tables: dict[str, TableStatus]
    batch_id: int | None
    source: dict[str, Any] | None
    table_format: str = "delta"


def pipeline_status(root: Path, checkpoint: Path | None = None) -> PipelineStatus:
    """Inspect a folder; ``checkpoint`` None is the one in it.

    Errors: UsageError if no pipeline has written there, or only one of an earlier version; StorageError.
    """
    root = tables_at(root)
    checkpoint = root / CHECKPOINT if checkpoint is None else checkpoint
    refuse_parquet(root)
    made = {name: table for name in TABLES if (table := open_table(root / name)) is not None}
    if not made and not Files().is_folder(checkpoint):
        raise UsageError(f"{root}: no pipeline has written there; start one with pykraft pipeline run --tables {root}")
    batch_id = last_batch_id(checkpoint)
    return PipelineStatus(
        tables={name: _status_of(table) for name, table in made.items()},
        batch_id=batch_id,
        source=None if batch_id is None else _shown(end_offset(checkpoint, batch_id)),
    )


def _shown(offset: dict[str, Any] | None) -> dict[str, Any] | None:
    """A stream offset without what only helps to go on before a cut."""
    if offset is None or "replicas" not in offset:
        return offset
    kept = {
        name: {key: value for key, value in position.items() if key not in ("marks", "cut")}
        for name, position in offset["replicas"].items()
    }
    return offset | {"replicas": kept}


def _status_of(table: DeltaTable) -> TableStatus:
    sizes = pa.table(table.get_add_actions()).column("size_bytes").to_pylist()
    return TableStatus(rows=table.count(), files=len(sizes), size_bytes=sum(sizes))
