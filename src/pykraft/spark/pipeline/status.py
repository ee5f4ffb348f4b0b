"""Reads the progress of a pipeline from its folder: without Spark or Java, also while it runs.

Invariant: it reports committed appends only.

Source: Spark's checkpoint (`pykraft.spark.pipeline.checkpoint`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from deltalake import DeltaTable
from pyarrow import dataset

from pykraft.errors import UsageError
from pykraft.spark.pipeline.checkpoint import end_offset, last_batch_id
from pykraft.spark.tables.names import BRONZE, CHECKPOINT, TABLES


@dataclass(frozen=True, slots=True, kw_only=True)
class TableStatus:
    """One table: its rows, files and bytes."""

    rows: int
    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineStatus:
    """All tables; the number of the last finished micro-batch (None before the first), and where it ended."""

    table_format: str
    tables: dict[str, TableStatus]
    batch_id: int | None
    source: dict[str, Any] | None

    def as_json(self) -> dict[str, Any]:
        """As a dict of plain values."""
        return asdict(self)


def pipeline_status(root: Path) -> PipelineStatus:
    """Inspect a folder. Errors: UsageError if no pipeline has written there."""
    is_delta = DeltaTable.is_deltatable(str(root / BRONZE))
    if not is_delta and not (root / CHECKPOINT).is_dir():
        raise UsageError(f"{root}: no pipeline has written there; start one with pykraft pipeline run --tables {root}")
    look = _delta_table if is_delta else _parquet_table
    found = {name: look(root / name) for name in TABLES if (root / name).is_dir()}
    batch_id = last_batch_id(root / CHECKPOINT)
    return PipelineStatus(
        table_format="delta" if is_delta else "parquet",
        tables=found,
        batch_id=batch_id,
        source=None if batch_id is None else end_offset(root / CHECKPOINT, batch_id),
    )


def _delta_table(folder: Path) -> TableStatus:
    table = DeltaTable(folder)
    paths = [Path(uri) for uri in table.file_uris()]
    return TableStatus(rows=table.count(), files=len(paths), size_bytes=sum(path.stat().st_size for path in paths))


def _parquet_table(folder: Path) -> TableStatus:
    paths = [str(path) for path in sorted(folder.glob("[!._]*/*.parquet"))]
    rows = dataset.dataset(paths, format="parquet").count_rows() if paths else 0
    return TableStatus(rows=rows, files=len(paths), size_bytes=sum(Path(path).stat().st_size for path in paths))
