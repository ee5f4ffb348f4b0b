"""The interface of a set of tables, whatever their format.

Invariant of every implementation: the name of an append is its stream and a number that grows with each micro-batch. An
append is in the table completely or not at all, with exactly the files that successful tasks reported. A second append
of the same name has no effect, and one that does not follow the last is rejected (`pykraft.spark.tables.commit`). So a
stream that was killed at any point and repeats its last micro-batch neither duplicates nor loses a row.

Source: Spark's ``foreachBatch`` (a batch id is repeated with the same rows); Delta's idempotent writes (``txnAppId``,
``txnVersion``).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructField, StructType

from pykraft.errors import UsageError
from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.parquet_writer import ParquetFile


class TableAppend(Protocol):
    """An append that has begun: tasks write files into its folder, and then it is finished with those they reported."""

    @property
    def folder(self) -> Path:
        """Where tasks write, which exists."""

    def finish(self, files: Sequence[ParquetFile]) -> int | None:
        """Commit these files; returns their rows, or None if another program made this append meanwhile.

        Errors: as `Tables.begin`.
        """


class Tables(Protocol):
    """Tables by name in one folder."""

    root: Path
    """The folder."""

    def begin(self, name: str, columns: StructType, commit: Commit) -> TableAppend | None:
        """Begin an append of rows with these columns, to a table that is created if needed; None if the table has it.

        Columns that the table lacks are added to it.

        Errors: UsageError if the rows lack a column of the table, or if the commit does not follow its last one;
        StorageError if it cannot be written.
        """

    def newest(self, name: str) -> Commit | None:
        """The newest append; None if there is none. Errors: StorageError if it cannot be read."""

    def replace(self, name: str, frame: DataFrame) -> int:
        """Replace all rows of a table, which is created if needed; returns their number.

        For small tables that are computed from others. Errors: as `begin`.
        """

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows. Errors: UsageError if the table does not exist."""

    def has(self, name: str) -> bool:
        """Whether the table exists."""


def no_table(root: Path, name: str) -> UsageError:
    """The error for a table that does not exist."""
    return UsageError(f"{root}: there is no table {name}; pykraft pipeline run creates it")


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


def rows_of(spark: SparkSession, columns: StructType, files: Sequence[str]) -> DataFrame:
    """The rows in these Parquet files of a table with these columns."""
    return spark.read.schema(columns).parquet(*files) if files else spark.createDataFrame([], columns)
