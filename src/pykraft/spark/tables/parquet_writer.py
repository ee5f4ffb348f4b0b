"""Writes one Parquet file of a table.

Invariant: a file is complete and synced before it is reported, and its report describes what it holds.

Source: Spark's ``FileFormatWriter``; Delta's add actions.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Self

import pyarrow as pa
import pyarrow.parquet as pq

from pykraft.errors import StorageError
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


class ParquetOutput:
    """A file that is being written; without rows there is none. A context manager: what is not finished is deleted.

    Rows wait until there are ``group_size_bytes_min`` of them, and then become one row group; by default each batch
    becomes one.
    """

    def __init__(self, folder: Path, columns: pa.Schema, *, group_size_bytes_min: int = 0) -> None:
        self._folder = folder
        self._columns = columns
        self._group_size_bytes_min = group_size_bytes_min
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_size_bytes = 0
        self._opened = ExitStack()
        self._path: Path | None = None
        self._file: BinaryIO | None = None
        self._writer: pq.ParquetWriter | None = None
        self._footers: list[pq.FileMetaData] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *of_error: object) -> None:
        try:
            self._opened.close()
        finally:
            if self._path is not None:
                self._path.unlink(missing_ok=True)

    def write(self, rows: pa.RecordBatch) -> None:
        """Add these rows, whose columns are in order. Errors: OSError; pyarrow's for columns of other types."""
        if not rows.num_rows:
            return
        cells = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(rows.columns, self._columns, strict=True)
        ]
        self._waiting.append(pa.RecordBatch.from_arrays(cells, schema=self._columns))
        self._waiting_size_bytes += rows.nbytes
        if self._waiting_size_bytes >= self._group_size_bytes_min:
            self._write_group()

    def finish(self) -> ParquetFile | None:
        """Make the file complete and durable; None if there were no rows. Errors: OSError."""
        if self._waiting:
            self._write_group()
        if self._path is None:
            return None
        assert self._writer is not None
        assert self._file is not None
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        size_bytes = self._file.tell()
        (footer,) = self._footers
        path, self._path = self._path, None
        return ParquetFile(
            name=path.name,
            size_bytes=size_bytes,
            rows=footer.num_rows,
            modified_ms=path.stat().st_mtime_ns // 1_000_000,
            statistics=statistics_json(footer, self._columns),
        )

    def _write_group(self) -> None:
        group = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_size_bytes = [], 0
        self._begun().write_table(group, row_group_size=group.num_rows)

    def _begun(self) -> pq.ParquetWriter:
        if self._writer is None:
            self._path = self._folder / f"part-{uuid.uuid4()}.parquet"
            self._file = self._opened.enter_context(self._path.open("xb"))
            self._writer = self._opened.enter_context(
                pq.ParquetWriter(
                    self._file, self._columns, compression="zstd", compression_level=1, metadata_collector=self._footers
                )
            )
        return self._writer


def write_parquet_file(groups: Iterator[pa.RecordBatch], folder: Path, columns: pa.Schema) -> ParquetFile | None:
    """Write these rows, each batch of them as a row group; None if there are none. Errors: OSError."""
    with ParquetOutput(folder, columns) as file:
        for group in groups:
            file.write(group)
        return file.finish()


def make_folder(folder: Path) -> None:
    """Make a folder for files, unless it exists. Errors: StorageError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError(folder, f"cannot be made: {error.strerror}") from error


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable. Errors: OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
