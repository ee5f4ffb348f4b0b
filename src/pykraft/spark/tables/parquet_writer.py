"""Writes one Parquet file of a table.

Invariant: a file is complete and synced before it is reported, and its report describes what it holds.

Source: Spark's ``FileFormatWriter``; Delta's add actions.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pykraft.spark.tables.file_statistics import statistics_json


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """One Parquet file: its name in the folder, bytes, rows, and when it was written (wall ms)."""

    name: str
    size_bytes: int
    rows: int
    modified_ms: int
    statistics: str
    """Those of Delta's add action (`pykraft.spark.tables.file_statistics`)."""


def write_parquet_file(groups: Iterator[pa.RecordBatch], folder: Path, columns: pa.Schema) -> ParquetFile | None:
    """Write these rows, each batch of them as a row group; None if there are none. Errors: OSError."""
    first = next((group for group in groups if group.num_rows), None)
    if first is None:
        return None
    name = f"part-{uuid.uuid4()}.parquet"
    path = folder / name
    footers: list[pq.FileMetaData] = []
    try:
        with path.open("xb") as file:
            with pq.ParquetWriter(
                file, columns, compression="zstd", compression_level=1, metadata_collector=footers
            ) as writer:
                for group in _with_first(first, groups):
                    writer.write_batch(pa.RecordBatch.from_arrays(group.columns, schema=columns))
            file.flush()
            os.fsync(file.fileno())
            size_bytes = file.tell()
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    (footer,) = footers
    return ParquetFile(
        name=name,
        size_bytes=size_bytes,
        rows=footer.num_rows,
        modified_ms=path.stat().st_mtime_ns // 1_000_000,
        statistics=statistics_json(footer, columns),
    )


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Errors: OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _with_first(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
