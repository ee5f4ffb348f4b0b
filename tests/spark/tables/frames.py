"""Rows that tests put into tables, of several types and with a null."""

from __future__ import annotations

from datetime import UTC, datetime

from pyspark.sql import DataFrame, SparkSession

from pykraft.spark.tables.commit import Commit
from pykraft.spark.tables.parquet_files import write_parquet_files
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


def append(tables: Tables, name: str, rows: DataFrame, commit: Commit) -> int | None:
    """Append these rows, as the pipeline does for several tables at once; their number, None if they are there."""
    begun = tables.begin(name, rows.schema, commit)
    return None if begun is None else begun.finish(write_parquet_files(rows, begun.folder))
