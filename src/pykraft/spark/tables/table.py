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
from typing import Any, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pykraft.errors import UsageError
from pykraft.spark.tables.commit import Commit


class Tables(Protocol):
    """Tables by name in one folder."""

    root: Path
    """The folder."""

    def append(self, name: str, frame: DataFrame, commit: Commit) -> int | None:
        """Append these rows, creating the table if needed; returns their number, or None if they are already there.

        Errors: UsageError if the table has other columns, or if the commit does not follow its last one; StorageError
        if it cannot be written.
        """

    def newest(self, name: str) -> Commit | None:
        """The newest append; None if there is none. Errors: StorageError if it cannot be read."""

    def replace(self, name: str, frame: DataFrame) -> int:
        """Replace all rows of a table, which is created if needed; returns their number.

        For small tables that are computed from others. Errors: as `append`.
        """

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows. Errors: UsageError if the table does not exist."""

    def has(self, name: str) -> bool:
        """Whether the table exists."""


def no_table(root: Path, name: str) -> UsageError:
    """The error for a table that does not exist."""
    return UsageError(f"{root}: there is no table {name}; pykraft pipeline run creates it")


def check_columns(folder: Path, have: Sequence[str], frame: DataFrame) -> None:
    """Reject rows with other columns than the table in this folder has. Errors: UsageError."""
    if list(have) != frame.columns:
        raise UsageError(
            f"{folder}: the table has the columns {', '.join(have)}, the rows have {', '.join(frame.columns)}"
        )


def rows_of(spark: SparkSession, columns: dict[str, Any], files: Sequence[str]) -> DataFrame:
    """The rows in these Parquet files of a table with these columns, as Spark has them in JSON."""
    schema = StructType.fromJson(columns)
    return spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
