"""Reads the progress of a pipeline from its folder: without Spark or Java, also while it runs.

Invariant: it reports committed appends only.

Source: Spark's checkpoint (`pykraft.spark.pipeline.checkpoint`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from pykraft.errors import UsageError
from pykraft.spark.pipeline.checkpoint import end_offset, last_batch_id
from pykraft.spark.pipeline.upkeep import refuse_parquet
from pykraft.spark.tables.names import CHECKPOINT, TABLES


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

    def as_json(self) -> dict[str, Any]:
        """As a dict of plain values."""
        return asdict(self)


def pipeline_status(root: Path) -> PipelineStatus:
    """Inspect a folder. Errors: UsageError if no pipeline has written there, or only one of an earlier version."""
    refuse_parquet(root)
    made = [name for name in TABLES if DeltaTable.is_deltatable(str(root / name))]
    if not made and not (root / CHECKPOINT).is_dir():
        raise UsageError(f"{root}: no pipeline has written there; start one with pykraft pipeline run --tables {root}")
    batch_id = last_batch_id(root / CHECKPOINT)
    return PipelineStatus(
        tables={name: _status_of(root / name) for name in made},
        batch_id=batch_id,
        source=None if batch_id is None else end_offset(root / CHECKPOINT, batch_id),
    )


def _status_of(folder: Path) -> TableStatus:
    table = DeltaTable(folder)
    paths = [Path(uri) for uri in table.file_uris()]
    return TableStatus(rows=table.count(), files=len(paths), size_bytes=sum(path.stat().st_size for path in paths))
