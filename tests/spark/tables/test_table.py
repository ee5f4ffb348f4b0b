"""Delta and Parquet tables keep the same promise: each append once, whole, also after a kill in the middle."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.testing import assertDataFrameEqual

from pykraft.errors import StorageError, UsageError
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.parquet import ParquetTables
from pykraft.spark.tables.table import Tables
from tests.spark.tables.frames import frame, ids

pytestmark = pytest.mark.spark

KINDS: dict[str, Callable[[Path], Tables]] = {"delta": DeltaTables, "parquet": ParquetTables}


@pytest.fixture(params=list(KINDS))
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    made: Tables = KINDS[request.param](tmp_path / "tables")
    return made


def test_rows_come_back_as_they_went_in(tables: Tables, spark: SparkSession) -> None:
    assert not tables.has("t")
    assert tables.append("t", frame(spark, 1, 2), stream="s", batch_id=0) == 2
    assert tables.append("t", frame(spark, 3), stream="s", batch_id=1) == 1
    assert tables.has("t")
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark, 1, 2, 3))


def test_a_micro_batch_that_is_repeated_is_there_once(tables: Tables, spark: SparkSession) -> None:
    tables.append("t", frame(spark, 1), stream="s", batch_id=0)
    tables.append("t", frame(spark, 2), stream="s", batch_id=1)
    assert tables.append("t", frame(spark, 2), stream="s", batch_id=1) is None
    assert tables.append("t", frame(spark, 1), stream="s", batch_id=0) is None
    assert tables.append("t", frame(spark, 1), stream="another", batch_id=0) == 1
    assert ids(spark, tables) == [1, 1, 2]


def test_a_micro_batch_without_rows_makes_the_table_too(tables: Tables, spark: SparkSession) -> None:
    assert tables.append("t", frame(spark), stream="s", batch_id=0) == 0
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark))
    assert tables.append("t", frame(spark, 1), stream="s", batch_id=1) == 1
    assert ids(spark, tables) == [1]


def test_rows_of_a_task_that_fails_are_in_no_table(tables: Tables, spark: SparkSession) -> None:
    tables.append("t", frame(spark, 1), stream="s", batch_id=0)
    broken = frame(spark, 2, 3).withColumn(
        "id", F.when(F.col("id") == 3, F.raise_error(F.lit("no")).cast("long")).otherwise(F.col("id"))
    )
    with pytest.raises(Exception, match="no"):
        tables.append("t", broken, stream="s", batch_id=1)
    assert ids(spark, tables) == [1]
    tables.append("t", frame(spark, 2, 3), stream="s", batch_id=1)
    assert ids(spark, tables) == [1, 2, 3]


def test_a_table_that_is_made_anew_has_the_new_rows_alone(tables: Tables, spark: SparkSession) -> None:
    assert tables.replace("t", frame(spark, 1, 2)) == 2
    assert tables.replace("t", frame(spark, 3)) == 1
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark, 3))
    with pytest.raises(UsageError, match="the table has the columns"):
        tables.replace("t", frame(spark, 1).select("id"))
    assert tables.replace("t", frame(spark)) == 0
    assert ids(spark, tables) == []


def test_other_columns_are_refused(tables: Tables, spark: SparkSession) -> None:
    tables.append("t", frame(spark, 1), stream="s", batch_id=0)
    with pytest.raises(UsageError, match="the table has the columns id, at, name, content, is_even, the rows have id"):
        tables.append("t", frame(spark, 1).select("id"), stream="s", batch_id=1)


def test_a_table_that_is_not_there_is_told(tables: Tables, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"there is no table t; pykraft pipeline run makes it"):
        tables.read(spark, "t")


def test_a_folder_that_cannot_be_written_is_an_error(tables: Tables, spark: SparkSession) -> None:
    tables.root.write_bytes(b"a file stands here")
    with pytest.raises(StorageError):
        tables.append("t", frame(spark, 1), stream="s", batch_id=0)
