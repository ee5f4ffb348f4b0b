"""Decides which small files of a table become one, and writes that one: in order of replica and offset, within bounds.

Invariant: a group has files of one replica, neighbors in the order of their offsets, so the statistics of the new file
exclude as much as before. The rows are the same. A file of the target size is never rewritten.

A full compaction merges neighbors up to the target size. A stream that compacted so each time would rewrite its newest
file again and again until that is full. So it merges only neighbors of about the same size, and a row is rewritten
about once for each doubling of its file.

Source: Delta's ``OPTIMIZE`` (bin packing); size-tiered compaction in LSM trees.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from pykraft.errors import StorageError
from pykraft.spark.tables.names import TARGET_SIZE_BYTES
from pykraft.spark.tables.parquet_writer import ParquetFile, sync_folder, write_parquet_file

FULL_SHARE: Final = 0.75
"""A file of this share of the target size is full: compression of larger row groups makes files smaller than the sum of
those they come from."""
ALIKE_RATIO: Final = 1.25
"""Files of equally many rows differ a little."""
ROW_GROUP_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of a row group in memory; a file of the target size is written in several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFile:
    """A file of a table: its name and bytes, and its place in the order; None where no statistics tell it."""

    name: str
    size_bytes: int
    replica: tuple[str | None, str | None]
    """The least and the greatest."""
    first_offset: int | None


def plan(
    files: Iterable[TableFile], *, target_size_bytes: int = TARGET_SIZE_BYTES, is_tiered: bool = False
) -> list[list[TableFile]]:
    """The groups of files that become one each, in order; ``is_tiered`` for a stream that asks again and again."""
    groups: list[list[TableFile]] = []
    ordered = sorted(files, key=_order)
    for _, of_replica in groupby(ordered, key=lambda file: file.replica):
        for run in _small_runs(of_replica, target_size_bytes * FULL_SHARE):
            packed = list(_packed(run, target_size_bytes))
            if is_tiered:
                packed[-1] = _newest_alike(packed[-1])
            groups += [group for group in packed if len(group) > 1]
    return groups


def merge(folder: Path, names: Sequence[str], columns: pa.Schema) -> ParquetFile | None:
    """One file with the rows of these, in their order; a column that a file lacks is null in its rows.

    None if there are no rows. Memory: a row group of a file, and `ROW_GROUP_SIZE_BYTES_MAX`.

    Errors: StorageError if a file cannot be read, or the new one not written.
    """
    try:
        file = write_parquet_file(_row_groups([folder / name for name in names], columns), folder, columns)
        sync_folder(folder)
    except (OSError, pa.ArrowException) as error:
        raise StorageError(folder, f"the files of the table cannot be merged: {error}") from error
    return file


def _order(file: TableFile) -> tuple[tuple[bool, str | int], ...]:
    """Nulls first, as Spark has them."""
    least, greatest = file.replica
    offset = file.first_offset
    return ((least is not None, least or ""), (greatest is not None, greatest or ""), (offset is not None, offset or 0))


def _small_runs(files: Iterable[TableFile], full_size_bytes: float) -> Iterator[list[TableFile]]:
    """Neighbors between two full files."""
    for is_small, run in groupby(files, key=lambda file: file.size_bytes < full_size_bytes):
        if is_small:
            yield list(run)


def _packed(run: Iterable[TableFile], target_size_bytes: int) -> Iterator[list[TableFile]]:
    """Neighbors of together at most the target size."""
    group: list[TableFile] = []
    size_bytes = 0
    for file in run:
        if group and size_bytes + file.size_bytes > target_size_bytes:
            yield group
            group, size_bytes = [], 0
        group.append(file)
        size_bytes += file.size_bytes
    if group:
        yield group


def _newest_alike(group: Sequence[TableFile]) -> list[TableFile]:
    """The newest files, up to one that is clearly larger than all that come after it together."""
    begin = len(group) - 1
    size_bytes = group[begin].size_bytes
    while begin > 0 and group[begin - 1].size_bytes <= size_bytes * ALIKE_RATIO:
        begin -= 1
        size_bytes += group[begin].size_bytes
    return list(group[begin:])


def _row_groups(paths: Iterable[Path], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of these files in row groups of a good size."""
    waiting: list[pa.Table] = []
    size_bytes = 0
    for path in paths:
        with pq.ParquetFile(path) as file:
            for place in range(file.num_row_groups):
                rows = _with_columns(file.read_row_group(place), columns)
                if waiting and size_bytes + rows.nbytes > ROW_GROUP_SIZE_BYTES_MAX:
                    yield from _one_batch(waiting)
                    waiting, size_bytes = [], 0
                waiting.append(rows)
                size_bytes += rows.nbytes
    if waiting:
        yield from _one_batch(waiting)


def _with_columns(rows: pa.Table, columns: pa.Schema) -> pa.Table:
    found = [
        rows.column(field.name).cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in columns
    ]
    return pa.Table.from_arrays(found, schema=columns)


def _one_batch(tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
    found: list[pa.RecordBatch] = pa.concat_tables(tables).combine_chunks().to_batches()
    return found
