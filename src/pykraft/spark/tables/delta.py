"""Delta tables without a jar: tasks write Parquet files, and the driver commits them with the ``deltalake`` library.

Each table is a folder ``<root>/<name>``. Invariant: a commit holds the files of one append, its name (Delta's
application transaction) and its range of the source (Delta's commit info). So the table itself records which appends it
holds. Each file has statistics, with which readers skip it. Files of an append that was never committed belong to no
table; ``DeltaTable.vacuum`` removes them. Any reader of Delta can read these tables.

Source: the Delta protocol (add actions, ``txn``, ``commitInfo``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pykraft.errors import StorageError
from pykraft.spark.tables.commit import Commit, check_first, is_new
from pykraft.spark.tables.delta_log import COMMIT, add_action, carried, named_commit, newest_commit
from pykraft.spark.tables.parquet_files import column_types, write_parquet_files
from pykraft.spark.tables.parquet_writer import ParquetFile, make_folder
from pykraft.spark.tables.table import added_columns, no_table, rows_of

COMMIT_ATTEMPTS_MAX: Final = 5
"""An attempt fails only if another program changed columns or properties since the table was opened."""
PROPERTIES: Final = {"delta.logRetentionDuration": "interval 7 days"}
"""Of a new table. A stream makes 170,000 entries of the log a day, and vacuum removes what older versions need."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeltaAppend:
    """See `pykraft.spark.tables.table.TableAppend`; ``table`` None is one that is created."""

    folder: Path
    table: DeltaTable | None
    columns: StructType
    commit: Commit

    def finish(self, files: Sequence[ParquetFile]) -> int | None:
        """See `TableAppend`."""
        folder, table, commit = self.folder, self.table, self.commit
        properties = CommitProperties(
            app_transactions=[Transaction(commit.stream, commit.batch_id)], custom_metadata={COMMIT: commit.as_json()}
        )
        for _ in range(COMMIT_ATTEMPTS_MAX):
            if _commit(folder, table, self.columns, files, mode="append", properties=properties):
                return sum(file.rows for file in files)
            # Another program changed the table's properties or columns meanwhile.
            table = DeltaTable(folder)
            if not _is_new(folder, table, commit):
                return None
            table = _with_columns(folder, table, self.columns)
        raise StorageError(folder, "the rows cannot be committed: other programs change the table all the time")


class DeltaTables:
    """See `pykraft.spark.tables.table.Tables`."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has(self, name: str) -> bool:
        """See `Tables`."""
        return DeltaTable.is_deltatable(str(self.root / name))

    def replace(self, name: str, frame: DataFrame) -> int:
        """See `Tables`; earlier versions of the table keep the former rows."""
        folder = self.root / name
        table = DeltaTable(folder) if self.has(name) else None
        if table is not None:
            table = _with_columns(folder, table, frame.schema)
        files = write_parquet_files(frame, folder)
        if not _commit(folder, table, frame.schema, files, mode="overwrite", properties=CommitProperties()):
            raise StorageError(folder, "the rows cannot be committed: another program changed the table")
        return sum(file.rows for file in files)

    def begin(self, name: str, columns: StructType, commit: Commit) -> DeltaAppend | None:
        """See `Tables`; tasks write into the table's own folder, where no commit names their files yet."""
        folder = self.root / name
        table = DeltaTable(folder) if self.has(name) else None
        if table is None:
            check_first(folder, commit)
        elif not _is_new(folder, table, commit):
            return None
        else:
            table = _with_columns(folder, table, columns)
        make_folder(folder)
        return DeltaAppend(folder=folder, table=table, columns=columns, commit=commit)

    def newest(self, name: str) -> Commit | None:
        """See `Tables`."""
        return newest_commit(DeltaTable(self.root / name)) if self.has(name) else None

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """See `Tables`; reads the files of the newest version."""
        if not self.has(name):
            raise no_table(self.root, name)
        table = DeltaTable(self.root / name)
        return rows_of(spark, _columns(table), table.file_uris())


def _is_new(folder: Path, table: DeltaTable, commit: Commit) -> bool:
    same = named_commit(table, commit.stream, commit.batch_id)
    return is_new(folder, commit, same=same, newest=newest_commit(table))


def _columns(table: DeltaTable) -> StructType:
    """Delta's type names are Spark's."""
    return StructType.fromJson(json.loads(table.schema().to_json()))


def _with_columns(folder: Path, table: DeltaTable, rows: StructType) -> DeltaTable:
    """The table with all columns of these rows. Errors: as `added_columns`; StorageError."""
    added = added_columns(folder, _columns(table), rows)
    if not added.fields:
        return table
    fields = Schema.from_arrow(column_types(added)).fields
    try:
        table.alter.add_columns(fields, commit_properties=CommitProperties(custom_metadata=carried(table)))
    except (DeltaError, OSError) as error:
        raise StorageError(folder, f"columns cannot be added: {error}") from error
    return DeltaTable(folder)


def _commit(
    folder: Path,
    table: DeltaTable | None,
    rows: StructType,
    files: Sequence[ParquetFile],
    *,
    mode: Literal["append", "overwrite"],
    properties: CommitProperties,
) -> bool:
    """Commit these files; ``table`` None creates the table. False if a commit of others is in the way."""
    actions: list[AddAction] = [add_action(file) for file in files]
    try:
        if table is None:
            columns = Schema.from_arrow(column_types(rows))
            create_table_with_add_actions(
                str(folder), columns, actions, configuration=PROPERTIES, commit_properties=properties
            )
        else:
            table.create_write_transaction([*actions], mode, table.schema(), commit_properties=properties)
    except CommitFailedError:
        return False
    except (DeltaError, OSError) as error:
        raise StorageError(folder, f"the rows cannot be committed: {error}") from error
    return True
