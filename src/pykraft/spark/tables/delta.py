"""Delta tables without a jar: tasks write Parquet files, and the driver commits them with the ``deltalake`` library.

Each table is a folder ``<root>/<name>``. Invariant: a commit holds the files of one append, its name (Delta's
application transaction) and its range of the source (Delta's commit info). So the table itself records which appends it
holds. Files of an append that was never committed belong to no table; ``DeltaTable.vacuum`` removes them. Any reader of
Delta can read these tables.

Source: the Delta protocol (add actions, ``txn``, ``commitInfo``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Literal

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions
from pyspark.sql import DataFrame, SparkSession

from pykraft.errors import StorageError
from pykraft.spark.tables.commit import Commit, check_first, is_new
from pykraft.spark.tables.parquet_files import ParquetFile, column_types, write_parquet_files
from pykraft.spark.tables.table import check_columns, no_table, rows_of

COMMIT: Final = "pykraft.commit"
"""The key in Delta's commit info."""


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
            same = _named(table, commit.stream, commit.batch_id)
            if not is_new(folder, commit, same=same, newest=_newest(table)):
                return None
            check_columns(folder, _names(table), frame)
        properties = CommitProperties(
            app_transactions=[Transaction(commit.stream, commit.batch_id)], custom_metadata={COMMIT: commit.as_json()}
        )
        return _commit(folder, table, frame, mode="append", properties=properties)

    def newest(self, name: str) -> Commit | None:
        """See `Tables`."""
        return _newest(DeltaTable(self.root / name)) if self.has(name) else None

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """See `Tables`; reads the files of the newest version."""
        if not self.has(name):
            raise no_table(self.root, name)
        table = DeltaTable(self.root / name)
        columns = json.loads(table.schema().to_json())  # Delta's type names are Spark's
        return rows_of(spark, columns, table.file_uris())


def _newest(table: DeltaTable) -> Commit | None:
    """The newest append. Commits of others may follow it, for example an optimisation of the table."""
    return next(_commits(table.history(1)), None) or next(_commits(table.history()), None)


def _named(table: DeltaTable, stream: str, batch_id: int) -> Commit | None:
    """The append of this name, if the number of the application transaction says that there was one."""
    done = table.transaction_version(stream)
    if done is None or done < batch_id:
        return None
    found = _commits(table.history())
    return next((each for each in found if (each.stream, each.batch_id) == (stream, batch_id)), None)


def _commits(versions: Iterable[Mapping[str, Any]]) -> Iterator[Commit]:
    return (Commit.from_json(version[COMMIT]) for version in versions if COMMIT in version)


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
    actions: list[AddAction] = [_add(file) for file in files]
    columns = Schema.from_arrow(column_types(frame.schema))
    try:
        if table is None:
            create_table_with_add_actions(str(folder), columns, actions, commit_properties=properties)
        else:
            table.create_write_transaction([*actions], mode, columns, commit_properties=properties)
    except (DeltaError, OSError) as error:
        raise StorageError(folder, f"the rows cannot be committed: {error}") from error
    return sum(file.rows for file in files)


def _names(table: DeltaTable) -> list[str]:
    return [field.name for field in table.schema().fields]


def _add(file: ParquetFile) -> AddAction:
    stats = json.dumps({"numRecords": file.rows})
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values={},
        modification_time=file.modified_ms,
        data_change=True,
        stats=stats,
    )
