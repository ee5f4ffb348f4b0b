"""Writes the rows of a DataFrame as Parquet files in Spark's tasks, and reports the files.

Invariant: only files of successful task attempts are reported, so the files of a failed attempt are in no table. A file
is synced before it is reported. All tasks and the driver must share the folder.

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
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from pykraft.errors import StorageError
from pykraft.spark.arrow_columns import number_column, text_column

TOLD = "name string, size_bytes long, rows long, modified_ms long"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """One Parquet file: its name in the folder, bytes, rows, and when it was written (wall ms)."""

    name: str
    size_bytes: int
    rows: int
    modified_ms: int


def write_parquet_files(frame: DataFrame, folder: Path) -> list[ParquetFile]:
    """The files with the rows of ``frame``, one for each of its non-empty partitions.

    Errors: StorageError if the folder cannot be created; errors of the tasks, as Spark raises them.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(folder, f"cannot be made: {error.strerror}") from error
    columns = column_types(frame.schema)

    def write(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = _write_one(groups, folder, columns)
        if file is not None:
            told = [text_column([file.name])]
            told += [number_column([number], pa.int64()) for number in (file.size_bytes, file.rows, file.modified_ms)]
            yield pa.RecordBatch.from_arrays(told, names=["name", "size_bytes", "rows", "modified_ms"])

    return [ParquetFile(**row.asDict()) for row in frame.mapInArrow(write, TOLD).collect()]


def column_types(schema: StructType) -> pa.Schema:
    """The types of the columns in a file: without Spark's metadata, times in UTC, all nullable."""
    arrow = to_arrow_schema(schema, timezone="UTC")
    return pa.schema([pa.field(field.name, field.type) for field in arrow])


def _write_one(groups: Iterator[pa.RecordBatch], folder: Path, columns: pa.Schema) -> ParquetFile | None:
    first = next((group for group in groups if group.num_rows), None)
    if first is None:
        return None
    name = f"part-{uuid.uuid4()}.parquet"
    path = folder / name
    rows = 0
    with path.open("xb") as file:
        with pq.ParquetWriter(file, columns, compression="zstd", compression_level=1) as writer:
            for group in _with_first(first, groups):
                rows += group.num_rows
                writer.write_batch(pa.RecordBatch.from_arrays(group.columns, schema=columns))
        file.flush()
        os.fsync(file.fileno())
        size_bytes = file.tell()
    return ParquetFile(name=name, size_bytes=size_bytes, rows=rows, modified_ms=path.stat().st_mtime_ns // 1_000_000)


def _with_first(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest
