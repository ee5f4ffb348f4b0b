"""Delta tables without a jar: tasks write Parquet files, and the driver commits them with the ``deltalake`` library.

Each table is a folder ``<root>/<name>``, which tasks and driver share (`pykraft.spark.tables.table_folder`). The name
of an append is its stream and the number of its micro-batch. Invariant: a commit holds the files of one append that
successful tasks reported, its name (Delta's application transaction) and its range of the source (Delta's commit info).
A second append of the same name has no effect, and one that does not follow the last is rejected
(`pykraft.spark.tables.commit`). So a stream that was killed at any point neither duplicates nor loses a row. Files that
were never committed belong to no table; ``DeltaTable.vacuum`` removes them.

Tables of Parquet files from earlier versions are converted without copying a row: an append is in the Delta table
before its folder is removed, so a conversion that was killed is repeated.

Source: the Delta protocol (add actions, ``txn``, ``commitInfo``); Spark's ``foreachBatch``, ``FileFormatWriter``.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Final, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from pykraft.errors import StorageError, UsageError
from pykraft.object_storage.uris import UriPath, located
from pykraft.spark.arrow_columns import number_column, text_column
from pykraft.spark.spark_versions import arrow_schema_of
from pykraft.spark.tables import commit as commits
from pykraft.spark.tables.delta_upkeep import row_groups
from pykraft.spark.tables.names import PARQUET_COLUMNS, TABLES
from pykraft.spark.tables.table_folder import delta_place, make_folder, open_table, sync_folder, tables_at, telling

COMMIT_ATTEMPTS_MAX: Final = 20
"""An attempt fails if another program committed since the table was opened, such as an upkeep."""
PROPERTIES: Final = {"delta.logRetentionDuration": "interval 7 days"}
"""Of a new table. A stream makes 170,000 entries of the log a day, and vacuum removes what older versions need."""
REMOTE_PROPERTIES: Final = PROPERTIES | {"delta.checkpointInterval": "10"}
"""In object storage each entry since the last checkpoint is a request; this is Delta's default, deltalake's is 100."""

ALONE: Final = CommitProperties(max_commit_retries=0)
"""Of a commit that fails if another one was first."""
FILE_COLUMNS = "name string, size_bytes long, rows long, modified_ms long, statistics string"
FILE_NAMES = [column.split()[0] for column in FILE_COLUMNS.split(", ")]
"""What a task reports of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaAppend:
    """An append that has begun: tasks write into ``folder``, which exists; without a ``table`` it creates one."""

    folder: Path
    table: DeltaTable | None
    columns: StructType
    commit: commits.Commit

    def finish(self, files: Sequence[commits.ParquetFile]) -> int | None:
        """Commit these files; returns their rows, or None if another program made this append meanwhile.

        Errors: as `DeltaTables.begin`.
        """
        folder, table, commit = self.folder, self.table, self.commit
        # No retries in the library: it would append behind what the guard has not seen, and twice to a new table.
        properties = CommitProperties(
            app_transactions=[Transaction(commit.stream, commit.batch_id)],
            custom_metadata={commits.COMMIT: commit.as_json()},
            max_commit_retries=0,
        )
        for _ in range(COMMIT_ATTEMPTS_MAX):
            if _commit(folder, table, self.columns, files, mode="append", properties=properties):
                return sum(file.rows for file in files)
            # Another program changed the table meanwhile, or made it.
            table = open_table(folder)
            if table is not None and not _is_new(folder, table, commit):
                return None
            table = None if table is None else _with_columns(folder, table, self.columns)
        raise StorageError(folder, "the rows cannot be committed: other programs change the table all the time")


class DeltaTables:
    """Tables by name in the folder ``root``."""

    def __init__(self, root: Path | str) -> None:
        """Errors: UsageError for a URI of storage that no table can be in."""
        self.root = tables_at(root)

    def has(self, name: str) -> bool:
        return self._opened(name) is not None

    def _opened(self, name: str) -> DeltaTable | None:
        return open_table(self.root / name)

    def replace(self, name: str, frame: DataFrame) -> int:
        """Replace all rows of a small table, which is created if needed; returns their number. Errors: as `begin`."""
        folder, table = self.root / name, self._opened(name)
        if table is not None:
            table = _with_columns(folder, table, frame.schema)
        files = write_parquet_files(frame, folder)
        if not _commit(folder, table, frame.schema, files, mode="overwrite", properties=ALONE):
            raise StorageError(folder, "the rows cannot be committed: another program changed the table")
        return sum(file.rows for file in files)

    def begin(self, name: str, columns: StructType, commit: commits.Commit) -> DeltaAppend | None:
        """Begin an append of rows with these columns; None if the table has it. Creates the table or its columns.

        Tasks write into the table's own folder, where no commit names their files yet. Errors: UsageError if the rows
        lack a column of the table, or if the commit does not follow its last one; StorageError.
        """
        folder, table = self.root / name, self._opened(name)
        if table is None:
            commits.check_first(folder, commit)
        elif not _is_new(folder, table, commit):
            return None
        else:
            table = _with_columns(folder, table, columns)
        make_folder(folder)
        return DeltaAppend(folder=folder, table=table, columns=columns, commit=commit)

    def cut(self, name: str, column: str, cuts: Mapping[str, int]) -> None:
        """Delete the rows of replicas from an offset on. Errors: StorageError."""
        folder, table = self.root / name, self._opened(name)
        if not cuts or table is None:
            return
        texts = {replica: replica.replace("'", "''") for replica in cuts}
        void = " OR ".join(f"(replica = '{texts[replica]}' AND {column} >= {cut})" for replica, cut in cuts.items())
        with telling(folder, "rows of a truncated log cannot be deleted"):
            table.delete(void, commit_properties=CommitProperties(custom_metadata=commits.carried(table)))

    def newest(self, name: str) -> commits.Commit | None:
        """The newest append; None if there is none. Errors: StorageError if it cannot be read."""
        table = self._opened(name)
        return None if table is None else commits.newest_commit(table)

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows: those in the files of the newest version. Errors: UsageError if the table does not exist."""
        table = self._opened(name)
        if table is None:
            raise UsageError(f"{self.root}: there is no table {name}; pykraft pipeline run creates it")
        columns, files = _columns(table), table.file_uris()
        if not files:
            return spark.createDataFrame([], columns)
        if isinstance(self.root, UriPath):
            return _read_objects(spark, columns, files)
        return spark.read.schema(columns).parquet(*files)


def _read_objects(spark: SparkSession, columns: StructType, uris: Sequence[str]) -> DataFrame:
    """The rows of these files, which tasks read: Spark itself knows object storage by jars only."""
    kinds = column_types(columns)

    def read(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for uri in chain.from_iterable(group.column(0).to_pylist() for group in groups):
            with telling(located(uri), "the file of the table cannot be read"):
                yield from row_groups([located(uri)], kinds)

    return spark.createDataFrame([(uri,) for uri in uris], "uri string").mapInArrow(read, columns)


def _is_new(folder: Path, table: DeltaTable, commit: commits.Commit) -> bool:
    same = commits.named_commit(table, commit.stream, commit.batch_id)
    return commits.is_new(folder, commit, same=same, newest=commits.newest_commit(table))


def _columns(table: DeltaTable) -> StructType:
    return StructType.fromJson(json.loads(table.schema().to_json()))


def _with_columns(folder: Path, table: DeltaTable, rows: StructType) -> DeltaTable:
    """The table with all columns of these rows. Errors: as `added_columns`; StorageError."""
    added = added_columns(folder, _columns(table), rows)
    if not added.fields:
        return table
    fields = Schema.from_arrow(column_types(added)).fields
    with telling(folder, "columns cannot be added"):
        table.alter.add_columns(fields, commit_properties=CommitProperties(custom_metadata=commits.carried(table)))
    changed = open_table(folder)
    assert changed is not None, "columns were added to it"
    return changed


def added_columns(folder: Path, table: StructType, rows: StructType) -> StructType:
    """The columns of these rows that the table in this folder lacks, nullable: its older rows have null in them.

    Errors: UsageError if the rows lack a column, or a column has another type.
    """
    have = {field.name: field.dataType.simpleString() for field in table}
    given = {field.name: field.dataType.simpleString() for field in rows}
    if unknown := [name for name in have if name not in given]:
        raise UsageError(
            f"{folder}: the table has columns that this version of pykraft does not write, {', '.join(unknown)}: a "
            "newer version or another program added them. Use that version, or write to another folder"
        )
    for name, kind in have.items():
        if given[name] != kind:
            raise UsageError(
                f"{folder}: the column {name} is {kind} in the table and {given[name]} in the rows: write to another "
                "folder"
            )
    return StructType([StructField(field.name, field.dataType) for field in rows if field.name not in have])


def _commit(
    folder: Path,
    table: DeltaTable | None,
    rows: StructType,
    files: Sequence[commits.ParquetFile],
    *,
    mode: Literal["append", "overwrite"],
    properties: CommitProperties,
) -> bool:
    """Commit these files; ``table`` None creates the table. False if a commit of others is in the way."""
    actions: list[AddAction] = [commits.add_action(file) for file in files]
    with telling(folder, "the rows cannot be committed"):
        try:
            if table is None:
                _create(folder, Schema.from_arrow(column_types(rows)), actions, properties)
            else:
                table.create_write_transaction([*actions], mode, table.schema(), commit_properties=properties)
        except CommitFailedError:
            return False
        except DeltaError:
            if table is not None or open_table(folder) is None:
                raise
            return False  # another program has made the table meanwhile
    return True


def _create(folder: Path, columns: Schema, actions: list[AddAction], properties: CommitProperties) -> None:
    uri, options = delta_place(folder)
    configuration = PROPERTIES if options is None else REMOTE_PROPERTIES
    create_table_with_add_actions(
        uri, columns, actions, configuration=configuration, storage_options=options, commit_properties=properties
    )


def write_parquet_files(frame: DataFrame, folder: Path) -> list[commits.ParquetFile]:
    """The files with the rows of ``frame``, one for each of its non-empty partitions.

    Errors: StorageError if the folder cannot be created; errors of the tasks, as Spark raises them.
    """
    make_folder(folder)
    columns = column_types(frame.schema)

    def write(groups: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file = commits.write_parquet_file(groups, folder, columns)
        if file is not None:
            yield pa.RecordBatch.from_arrays(file_columns(file), names=FILE_NAMES)

    return [commits.ParquetFile(**row.asDict()) for row in frame.mapInArrow(write, FILE_COLUMNS).collect()]


def file_columns(file: commits.ParquetFile) -> list[pa.Array]:
    """A file as a row of `FILE_COLUMNS`."""
    numbers = [number_column([number], pa.int64()) for number in (file.size_bytes, file.rows, file.modified_ms)]
    return [text_column([file.name]), *numbers, text_column([file.statistics])]


def column_types(schema: StructType) -> pa.Schema:
    """The types of the columns in a file: without Spark's metadata, times in UTC, all nullable."""
    arrow = arrow_schema_of(schema)
    return pa.schema([pa.field(field.name, field.type) for field in arrow])


FORMER_COMMIT: Final = "_commit.json"


def convert_parquet_tables(tables: DeltaTables) -> None:
    """Convert the tables of a pipeline that are Parquet, which were on disks only. Errors: StorageError."""
    if isinstance(tables.root, UriPath):
        return
    for name in TABLES:
        if (tables.root / name / PARQUET_COLUMNS).is_file():
            try:
                _convert(tables, name)
            except (OSError, ValueError, KeyError, TypeError) as error:
                raise StorageError(tables.root / name, f"the Parquet table cannot be converted: {error}") from error


def _convert(tables: DeltaTables, name: str) -> None:
    folder = tables.root / name
    columns = StructType.fromJson(json.loads((folder / PARQUET_COLUMNS).read_text()))
    appends = [(json.loads((path / FORMER_COMMIT).read_text()), path) for path in folder.glob("[!._]*/")]
    for kept, path in sorted(appends, key=lambda each: each[0]["number"]):
        append = tables.begin(name, columns, commits.Commit.from_json(kept["commit"]))
        if append is not None:  # a conversion that was killed has done the others
            append.finish([_linked(file, folder, columns) for file in sorted(path.glob("*.parquet"))])
    for left in [*folder.glob("[!._]*/"), *folder.glob(".*/")]:
        shutil.rmtree(left)
    (folder / PARQUET_COLUMNS).unlink()


def _linked(file: Path, folder: Path, columns: StructType) -> commits.ParquetFile:
    target = folder / file.name
    if not target.exists():
        os.link(file, target)
        sync_folder(folder)
    footer, status = pq.read_metadata(file), file.stat()
    return commits.ParquetFile(
        name=file.name,
        size_bytes=status.st_size,
        rows=footer.num_rows,
        modified_ms=status.st_mtime_ns // 1_000_000,
        statistics=commits.statistics_json(footer, column_types(columns)),
    )
