"""What a set of tables can do, whatever it is made of.

Invariant of every implementation: an append is named by its stream and a number that grows with each micro-batch; it is
in the table whole or not at all, and exactly the files of it that the successful tasks told. A second one of the same
name is none, and one that does not follow the last is refused (`pykraft.spark.tables.commit`). So a stream that was
killed anywhere and repeats its last micro-batch leaves no row twice and none out.

Source: Spark's ``foreachBatch`` (a batch id is repeated with the same rows); Delta's idempotent writes
(``txnAppId``, ``txnVersion``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from pyspark.sql import DataFrame, SparkSession

from pykraft.errors import UsageError
from pykraft.spark.tables.commit import Commit


class Tables(Protocol):
    """Tables by name in one folder."""

    @property
    def root(self) -> Path:
        """The folder."""
        ...

    def append(self, name: str, frame: DataFrame, commit: Commit) -> int | None:
        """Add these rows to a table, which is made when it is not there; how many, or None when they were there.

        Errors: UsageError when the table has other columns, and when the commit does not follow its last one;
        StorageError when it cannot be written.
        """
        ...

    def newest(self, name: str) -> Commit | None:
        """The append that came last; None when there was none. Errors: StorageError when it cannot be read."""
        ...

    def replace(self, name: str, frame: DataFrame) -> int:
        """Make these rows the whole table, which is made when it is not there; how many.

        For what is small and made anew from other tables. Errors: as `append`.
        """
        ...

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """All rows. Errors: UsageError when there is no such table."""
        ...

    def has(self, name: str) -> bool:
        """True when the table was made."""
        ...


def no_table(root: Path, name: str) -> UsageError:
    """The error for a table that is not there."""
    return UsageError(f"{root}: there is no table {name}; pykraft pipeline run makes it")
