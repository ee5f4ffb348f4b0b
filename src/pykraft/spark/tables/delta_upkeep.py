"""Upkeep of a Delta table: small files become large ones, files that no reader needs are deleted, the log stays short.

A stream may append meanwhile, and a kill at any point loses nothing:

1. The rows of some small files are written into a new file, which no commit names yet.
2. One commit adds the new file and removes the small ones, as the version after one that still has all of them:
   `deltalake` itself would let two compactions remove the same files, and double their rows.
3. Vacuum deletes removed files when they are old enough, and files that no commit ever named.

A group has files of one replica, neighbors in the order of their offsets, so the new file's statistics exclude as much
as before. A full compaction merges neighbors up to the target size; a stream merges only neighbors of about the same
size, so that a row is rewritten about once for each doubling of its file. Invariant: the rows and the appends of the
table are the same before and after.

Source: the Delta protocol (``dataChange``, tombstones, checkpoints); Delta's ``OPTIMIZE`` and ``VACUUM``; size-tiered
compaction in LSM trees.
"""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake.exceptions import CommitFailedError
from deltalake.transaction import RemoveAction

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage import shared_folder
from pykraft.spark.tables.commit import ParquetFile, add_action, carried, statistics_json, write_parquet_file
from pykraft.spark.tables.names import RETENTION_HOURS, TARGET_SIZE_BYTES
from pykraft.spark.tables.table_folder import LOG, open_table, parquet_file, sync_folder, telling

FULL_SHARE: Final = 0.75
"""A file of this share of the target size is full: compression of larger row groups makes files smaller than the sum of
those they come from."""
ALIKE_RATIO: Final = 1.25
"""Files of equally many rows differ a little."""
ROW_GROUP_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of a row group in memory; a file of the target size is written in several."""


UNNAMED_HOURS_MIN: Final = 24
"""A file that no commit names may belong to a micro-batch that is under way; after a day it does not."""
PLACES: Final = ("offset", "base_offset")
"""The columns that order the tables of a log."""
ROUNDS_MAX: Final = 3
"""A merged file is smaller than the sum of its parts, so it may be merged again; but a stream adds files forever."""
COMMIT_ATTEMPTS_MAX: Final = 20
"""Each attempt fails if the stream committed within the same few milliseconds."""
CHECKPOINT_FILE: Final = "_last_checkpoint"


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
    """One file with the rows of these, in their order, null where a file lacks a column; None if there are no rows.

    Memory: a row group of a file, and `ROW_GROUP_SIZE_BYTES_MAX`. Errors: StorageError.
    """
    with telling(folder, "the files of the table cannot be merged"):
        file = write_parquet_file(row_groups([folder / name for name in names], columns), folder, columns)
        sync_folder(folder)
    return file


def _order(file: TableFile) -> tuple[tuple[bool, str | int], ...]:
    """Nulls first, as Spark has them."""
    least, greatest = file.replica
    offset = file.first_offset
    return ((least is not None, least or ""), (greatest is not None, greatest or ""), (offset is not None, offset or 0))


def _small_runs(files: Iterable[TableFile], full_size_bytes: float) -> Iterator[list[TableFile]]:
    for is_small, run in groupby(files, key=lambda file: file.size_bytes < full_size_bytes):
        if is_small:
            yield list(run)


def _packed(run: Iterable[TableFile], target_size_bytes: int) -> Iterator[list[TableFile]]:
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


def row_groups(paths: Iterable[Path], columns: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of these files, null where one lacks a column. Errors: those of `parquet_file`.

    Memory: a row group of a file, and `ROW_GROUP_SIZE_BYTES_MAX`.
    """
    waiting: list[pa.Table] = []
    size_bytes = 0
    for path in paths:
        with parquet_file(path) as file:
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


def compact(
    folder: Path,
    *,
    target_size_bytes: int = TARGET_SIZE_BYTES,
    is_tiered: bool = False,
    on_merged: Callable[[int], None] | None = None,
) -> int:
    """Merge small files, see `plan`; returns the bytes that were rewritten.

    ``on_merged`` gets these bytes after each commit. A table without offsets stays as it is. If another program commits
    again and again at the same moment, some small files stay for the next time.

    Errors: UsageError for a table with features or partitions that are not pykraft's; StorageError.
    """
    rewritten_bytes = 0
    for _ in range(ROUNDS_MAX):
        table = _open(folder)
        names = {field.name for field in table.schema().fields}
        groups = plan(_files(table, folder), target_size_bytes=target_size_bytes, is_tiered=is_tiered)
        if not names.intersection(PLACES) or not groups:
            break
        columns = pa.schema(table.schema().to_arrow())
        for group in groups:
            file = merge(folder, [each.name for each in group], columns)  # 1.
            if not _replace(folder, group, file, columns):  # 2.
                return rewritten_bytes
            rewritten_bytes += sum(each.size_bytes for each in group)
            if on_merged is not None:
                on_merged(rewritten_bytes)
    return rewritten_bytes


def vacuum(folder: Path, *, retention_hours: int = RETENTION_HOURS) -> int:
    """Delete files that the table does not have any more, if they are that old; returns their number.

    Files that no commit ever named are deleted only if the retention is at least `UNNAMED_HOURS_MIN`.

    Errors: as `compact`.
    """
    table = _open(folder)
    with telling(folder, "old files cannot be deleted"):
        # 3.
        deleted = table.vacuum(
            retention_hours,
            dry_run=False,
            enforce_retention_duration=False,
            full=retention_hours >= UNNAMED_HOURS_MIN,
            commit_properties=CommitProperties(custom_metadata=carried(table)),
        )
    return len(set(deleted))


def shorten_log(folder: Path) -> None:
    """Write a checkpoint of the log if there is none of the newest version, and delete what Delta's properties allow.

    Errors: as `compact`.
    """
    table = _open(folder)
    with telling(folder, "the checkpoint cannot be written"):
        if _checkpoint_version(folder) != table.version():
            table.create_checkpoint()
        table.cleanup_metadata()


def files_of(folder: Path) -> int:
    """How many files the table has. Errors: as `compact`."""
    return len(_open(folder).file_uris())


def _open(folder: Path) -> DeltaTable:
    table = open_table(folder)
    if table is None:
        raise StorageError(folder, "the table cannot be opened: there is none")
    with telling(folder, "the table cannot be opened"):
        features = table.protocol().reader_features or []
        partitions = table.metadata().partition_columns
    if features or partitions:
        found = ", ".join([*features, *(f"partitions by {name}" for name in partitions)])
        raise UsageError(f"{folder}: another program gave the table {found}; use that program for its upkeep")
    return table


def _files(table: DeltaTable, folder: Path) -> list[TableFile]:
    """The files of the table; the footers tell the places of those without statistics."""
    found: list[dict[str, Any]] = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    columns = pa.schema(table.schema().to_arrow())
    return [_file(row, folder, columns) for row in found]


def _file(row: dict[str, Any], folder: Path, columns: pa.Schema) -> TableFile:
    place = next((name for name in PLACES if name in columns.names), None)
    lowest = {name.removeprefix("min."): cell for name, cell in row.items() if name.startswith("min.")}
    highest = {name.removeprefix("max."): cell for name, cell in row.items() if name.startswith("max.")}
    if place is not None and lowest.get(place) is None:
        told = json.loads(_footer_statistics(folder / row["path"], columns))
        lowest, highest = told["minValues"], told["maxValues"]
    return TableFile(
        name=row["path"],
        size_bytes=row["size_bytes"],
        replica=(lowest.get("replica"), highest.get("replica")),
        first_offset=None if place is None else lowest.get(place),
    )


def _footer_statistics(path: Path, columns: pa.Schema) -> str:
    with telling(path, "the file of the table cannot be read"), parquet_file(path) as file:
        return statistics_json(file.metadata, columns)


def _replace(folder: Path, group: Sequence[TableFile], file: ParquetFile | None, columns: pa.Schema) -> bool:
    """Commit that this file has the rows of the group; False if the table does not have that group any more."""
    names = {each.name for each in group}
    for _ in range(COMMIT_ATTEMPTS_MAX):
        table = _open(folder)
        here = {Path(uri).name for uri in table.file_uris()}
        if not names <= here or pa.schema(table.schema().to_arrow()) != columns:
            break
        now_ms = time.time_ns() // 1_000_000
        removed = [
            RemoveAction(each.name, data_change=False, deletion_timestamp=now_ms, size=each.size_bytes)
            for each in group
        ]
        added = [] if file is None else [add_action(file, data_change=False)]
        # No retries in the library: it would not look at the files again.
        properties = CommitProperties(custom_metadata=carried(table), max_commit_retries=0)
        with telling(folder, "the merged file cannot be committed"):
            try:
                table.create_write_transaction(
                    [*added, *removed], "append", table.schema(), commit_properties=properties
                )
            except CommitFailedError:
                continue
            return True
    if file is not None:
        shared_folder.remove(folder / file.name)
    return False


def _checkpoint_version(folder: Path) -> int | None:
    content = shared_folder.content(folder / LOG / CHECKPOINT_FILE)
    try:
        return None if content is None else int(json.loads(content)["version"])
    except (ValueError, KeyError, TypeError):
        return None
