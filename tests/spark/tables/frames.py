"""Rows that tests put into tables, of several types and with a null."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.table import Tables

COLUMNS = "id long, at timestamp, name string, content binary, is_even boolean"


PARITY = (None, False, True, None, True, False)


def frame(spark: SparkSession, *ids: int) -> DataFrame:
    """One row for each id."""
    at = datetime(2026, 1, 2, 3, 4, 5, 678_000, tzinfo=UTC)
    rows = [
        (number, at, f"row {number}", bytes([number]), None if number % 3 == 0 else number % 2 == 0) for number in ids
    ]
    return spark.createDataFrame(rows, COLUMNS)


def ids(spark: SparkSession, tables: Tables) -> list[int]:
    """The ids of all rows of the table ``t``."""
    return sorted(row["id"] for row in tables.read(spark, "t").collect())


def commit(batch_id: int, *, stream: str = "s", start: int | None = None, end: int | None = None) -> Commit:
    """A micro-batch of ten offsets, unless others are given."""
    begin = 10 * batch_id if start is None else start
    return Commit(
        stream=stream,
        batch_id=batch_id,
        start={"cluster": "c", "offset": begin},
        end={"cluster": "c", "offset": begin + 10 if end is None else end},
    )
