"""Delta tables without a jar: tasks write Parquet files, and the driver commits them with the ``deltalake`` library.

Each table is a folder ``<root>/<name>``. Invariant: a commit holds the files of one append, its name (Delta's
application transaction) and its range of the source (Delta's commit info). So the table itself records which appends it
holds. Each file has statistics, with which readers skip it. Files of an append that was never committed belong to no
table; ``DeltaTable.vacuum`` removes them. Any reader of Delta can read these tables.

Source: the Delta protocol (add actions, ``txn``, ``commitInfo``).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final, Literal

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession

from pykraft.errors import StorageError
from pykraft.spark.tables.commit import Commit, check_first, is_new
from pykraft.spark.tables.delta_log import COMMIT, add_action, named_commit, newest_commit
from pykraft.spark.tables.parquet_files import column_types, write_parquet_files
from pykraft.spark.tables.table import check_columns, no_table, rows_of

PROPERTIES: Final = {"delta.logRetentionDuration": "interval 7 days"}
"""Of a new table. A stream makes 170,000 entries of the log a day, and vacuum removes what older versions need."""


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
            check_columns(folder, _names(table), frame)
        return _commit(folder, table, frame, mode="overwrite", properties=CommitProperties())

    def append(self, name: str, frame: DataFrame, commit: Commit) -> int | None:
        """See `Tables`."""
        folder = self.root / name
        table = DeltaTable(folder) if self.has(name) else None
        if table is None:
            check_first(folder, commit)
        else:
            same = named_commit(table, commit.stream, commit.batch_id)
            if not is_new(folder, commit, same=same, newest=newest_commit(table)):
                return None
            check_columns(folder, _names(table), frame)
        properties = CommitProperties(
            app_transactions=[Transaction(commit.stream, commit.batch_id)], custom_metadata={COMMIT: commit.as_json()}
        )
        return _commit(folder, table, frame, mode="append", properties=properties)

    def newest(self, name: str) -> Commit | None:
        """See `Tables`."""
        return newest_commit(DeltaTable(self.root / name)) if self.has(name) else None

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """See `Tables`; reads the files of the newest version."""
        if not self.has(name):
            raise no_table(self.root, name)
        table = DeltaTable(self.root / name)
        columns = json.loads(table.schema().to_json())  # Delta's type names are Spark's
        return rows_of(spark, columns, table.file_uris())


def _commit(
    folder: Path,
    table: DeltaTable | None,
    frame: DataFrame,
    *,
    mode: Literal["append", "overwrite"],
    properties: CommitProperties,
) -> int:
    """Write the rows, then commit them; ``table`` None creates the table. Returns the number of rows."""
    files = write_parquet_files(frame, folder)
    actions: list[AddAction] = [add_action(file) for file in files]
    columns = Schema.from_arrow(column_types(frame.schema))
    try:
        if table is None:
            create_table_with_add_actions(
                str(folder), columns, actions, configuration=PROPERTIES, commit_properties=properties
            )
        else:
            table.create_write_transaction([*actions], mode, columns, commit_properties=properties)
    except (DeltaError, OSError) as error:
        raise StorageError(folder, f"the rows cannot be committed: {error}") from error
    return sum(file.rows for file in files)


def _names(table: DeltaTable) -> list[str]:
    return [field.name for field in table.schema().fields]
