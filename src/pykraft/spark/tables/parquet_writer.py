"""Writes one Parquet file of a table, with the statistics of Delta's add action, with which readers skip files.

Invariant: a file is complete and synced before it is reported. A bound holds for each row of the file; where the footer
does not prove one, there is none: for floating-point numbers (NaN), binary and nested columns, and long texts.

Source: Spark's ``FileFormatWriter``; the Delta protocol (per-file statistics); Parquet's column chunk statistics.
"""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, BinaryIO, Final, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.parquet import FileMetaData
from pyarrow.parquet import Statistics as ChunkStatistics

from pykraft.errors import StorageError

TEXT_SIZE_BYTES_MAX: Final = 64
"""A longer bound would cost more in every commit than it saves."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def statistics_json(metadata: FileMetaData, columns: pa.Schema) -> str:
    """The field ``stats`` of the add action of a file with this footer and these columns."""
    lowest: dict[str, int | str] = {}
    highest: dict[str, int | str] = {}
    null_count: dict[str, int] = {}
    flat = {field.name: field.type for field in columns if not pa.types.is_nested(field.type)}
    for name, chunks in _chunks(metadata).items():
        # Not `None in chunks`: pyarrow's statistics compared with None end the process.
        known = [chunk for chunk in chunks if chunk is not None]
        if name not in flat or len(known) < len(chunks):
            continue
        if all(chunk.has_null_count for chunk in known):
            null_count[name] = sum(chunk.null_count for chunk in known)
        # A chunk of nulls has no bounds, and takes none from the others.
        filled = [chunk for chunk in known if chunk.has_min_max or not _is_null(chunk)]
        if filled and all(chunk.has_min_max for chunk in filled):
            least = _bound(min(chunk.min_raw for chunk in filled), flat[name])
            greatest = _bound(max(chunk.max_raw for chunk in filled), flat[name])
            if least is not None and greatest is not None:
                lowest[name], highest[name] = least, greatest
    found = {"numRecords": metadata.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": null_count}
    return json.dumps(found)


def _chunks(metadata: FileMetaData) -> dict[str, list[ChunkStatistics | None]]:
    found: dict[str, list[ChunkStatistics | None]] = {}
    for group in range(metadata.num_row_groups):
        row_group = metadata.row_group(group)
        for place in range(row_group.num_columns):
            column = row_group.column(place)
            found.setdefault(column.path_in_schema, []).append(column.statistics)
    return found


def _is_null(chunk: ChunkStatistics) -> bool:
    return bool(chunk.has_null_count and chunk.num_values == 0)


def _bound(raw: Any, kind: pa.DataType) -> int | str | None:  # noqa: ANN401 - Parquet's physical value
    if pa.types.is_integer(kind):
        return int(raw)
    if pa.types.is_timestamp(kind) and kind.unit == "us":
        when = _EPOCH + timedelta(microseconds=raw)
        zone = "Z" if kind.tz is not None else ""
        return f"{when.replace(tzinfo=None).isoformat(timespec='microseconds')}{zone}"
    if pa.types.is_string(kind) and len(raw) <= TEXT_SIZE_BYTES_MAX:
        return bytes(raw).decode()
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetFile:
    """One Parquet file: its name in the folder, bytes, rows, and when it was written (wall ms)."""

    name: str
    size_bytes: int
    rows: int
    modified_ms: int
    statistics: str
    """Those of Delta's add action."""


class ParquetOutput:
    """A file that is being written; without rows there is none. A context manager: what is not finished is deleted.

    Rows wait until there are ``group_size_bytes_min`` of them for a row group; by default each batch becomes one.
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
