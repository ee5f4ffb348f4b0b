"""Delta and Parquet tables keep the same promise: each append once and complete, even after a kill."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import cast

import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.testing import assertDataFrameEqual

from pykraft.errors import StorageError, UsageError
from pykraft.spark.data_source.schema import columns_of
from pykraft.spark.tables import parquet_files
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.parquet import ParquetTables
from pykraft.spark.tables.parquet_writer import ParquetFile, write_parquet_file
from pykraft.spark.tables.table import Tables, added_columns
from tests.spark.tables.commits import commit
from tests.spark.tables.frames import append, frame, ids

pytestmark = pytest.mark.spark

KINDS: dict[str, Callable[[Path], Tables]] = {"delta": DeltaTables, "parquet": ParquetTables}


@pytest.fixture(params=list(KINDS))
def tables(request: pytest.FixtureRequest, tmp_path: Path) -> Tables:
    made: Tables = KINDS[request.param](tmp_path / "tables")
    return made


def test_rows_come_back_as_they_went_in(tables: Tables, spark: SparkSession) -> None:
    assert not tables.has("t")
    assert append(tables, "t", frame(spark, 1, 2), commit(0)) == 2
    assert append(tables, "t", frame(spark, 3), commit(1)) == 1
    assert tables.has("t")
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark, 1, 2, 3))


def test_a_micro_batch_that_is_repeated_is_there_once(tables: Tables, spark: SparkSession) -> None:
    assert tables.newest("t") is None
    append(tables, "t", frame(spark, 1), commit(0))
    append(tables, "t", frame(spark, 2), commit(1))
    assert append(tables, "t", frame(spark, 2), commit(1)) is None
    assert append(tables, "t", frame(spark, 1), commit(0)) is None
    assert tables.newest("t") == commit(1)
    assert ids(spark, tables) == [1, 2]


def test_another_stream_may_go_on_where_the_table_ends(tables: Tables, spark: SparkSession) -> None:
    append(tables, "t", frame(spark, 1), commit(0))
    append(tables, "t", frame(spark, 2), commit(1))
    for number in range(2):
        follower = commit(number, stream="another", start=20 + 10 * number)
        assert append(tables, "t", frame(spark, 3 + number), follower) == 1
        assert append(tables, "t", frame(spark, 3 + number), follower) is None
        assert tables.newest("t") == follower
    assert append(tables, "t", frame(spark, 1), commit(0)) is None
    assert ids(spark, tables) == [1, 2, 3, 4]


def test_a_micro_batch_that_does_not_follow_is_refused(tables: Tables, spark: SparkSession) -> None:
    append(tables, "t", frame(spark, 1), commit(0))
    append(tables, "t", frame(spark, 2), commit(1))
    rows = frame(spark, 3)
    too_old, does_not_follow = "is .* the checkpoint is too old", "rows would be missing or duplicated"
    for what, wrong, told in (
        ("old number", commit(0, end=7), f"micro-batch 0 of the checkpoint {too_old}"),
        ("last number", commit(1, end=30), f"micro-batch 1 of the checkpoint {too_old}"),
        ("everything anew", commit(0, stream="another"), does_not_follow),
        ("overlap", commit(2, start=19), does_not_follow),
        ("gap", commit(3), does_not_follow),
    ):
        with pytest.raises(UsageError, match=f"{told}.*restore the checkpoint"):
            append(tables, "t", rows, wrong)
        assert tables.newest("t") == commit(1), what
    assert ids(spark, tables) == [1, 2]


def test_a_table_that_is_gone_while_its_checkpoint_goes_on_is_told(tables: Tables, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match="at micro-batch 3, but the table with the earlier rows is gone"):
        append(tables, "t", frame(spark, 3), commit(3))


def test_a_table_that_does_not_know_what_it_holds_is_not_written_to(tables: Tables, spark: SparkSession) -> None:
    tables.replace("t", frame(spark, 1))
    assert tables.newest("t") is None
    with pytest.raises(UsageError, match="does not record which part of the log it holds"):
        append(tables, "t", frame(spark, 2), commit(0))


def test_a_micro_batch_without_rows_makes_the_table_too(tables: Tables, spark: SparkSession) -> None:
    assert append(tables, "t", frame(spark), commit(0)) == 0
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark))
    assert append(tables, "t", frame(spark, 1), commit(1)) == 1
    assert ids(spark, tables) == [1]


def test_rows_of_a_task_that_fails_are_in_no_table(tables: Tables, spark: SparkSession) -> None:
    append(tables, "t", frame(spark, 1), commit(0))
    broken = frame(spark, 2, 3).withColumn(
        "id", F.when(F.col("id") == 3, F.raise_error(F.lit("no")).cast("long")).otherwise(F.col("id"))
    )
    with pytest.raises(Exception, match="no"):
        append(tables, "t", broken, commit(1))
    assert ids(spark, tables) == [1]
    append(tables, "t", frame(spark, 2, 3), commit(1))
    assert ids(spark, tables) == [1, 2, 3]


def test_a_table_that_is_made_anew_has_the_new_rows_alone(tables: Tables, spark: SparkSession) -> None:
    assert tables.replace("t", frame(spark, 1, 2)) == 2
    assert tables.replace("t", frame(spark, 3)) == 1
    assertDataFrameEqual(tables.read(spark, "t"), frame(spark, 3))
    with pytest.raises(UsageError, match="the table has columns that this version of pykraft does not write, at, name"):
        tables.replace("t", frame(spark, 1).select("id"))
    assert tables.replace("t", frame(spark)) == 0
    assert ids(spark, tables) == []


def test_columns_that_only_newer_rows_have_are_null_in_older_ones(tables: Tables, spark: SparkSession) -> None:
    older = frame(spark, 1).drop("name", "is_even")
    append(tables, "t", older, commit(0))
    append(tables, "t", frame(spark, 2), commit(1))
    assert append(tables, "t", older, commit(0)) is None
    assert append(tables, "t", frame(spark, 3), commit(2)) == 1
    read = tables.read(spark, "t")
    assert read.columns == ["id", "at", "content", "name", "is_even"]
    null = F.lit(None)
    wanted = older.withColumns({"name": null.cast("string"), "is_even": null.cast("boolean")})
    assertDataFrameEqual(read, wanted.unionByName(frame(spark, 2, 3)))
    tables.replace("r", older)
    tables.replace("r", frame(spark, 2))
    assertDataFrameEqual(tables.read(spark, "r").select(frame(spark).columns), frame(spark, 2))


def test_an_added_column_is_nullable_even_if_its_rows_are_not() -> None:
    table, rows = columns_of("id bigint not null"), columns_of("crc bigint not null, id bigint not null")
    assert added_columns(Path("t"), table, rows) == columns_of("crc bigint")


def test_columns_that_the_rows_lack_or_that_have_another_type_are_refused(tables: Tables, spark: SparkSession) -> None:
    append(tables, "t", frame(spark, 1), commit(0))
    told = r"t: the table has columns .* does not write, name, is_even: a newer version .* added them. Use that version"
    with pytest.raises(UsageError, match=told):
        append(tables, "t", frame(spark, 2).drop("name", "is_even"), commit(1))
    with pytest.raises(UsageError, match="the column id is bigint in the table and string in the rows: write to anoth"):
        append(tables, "t", frame(spark, 2).withColumn("id", F.col("id").cast("string")), commit(1))
    assert ids(spark, tables) == [1]


def test_a_table_that_is_not_there_is_told(tables: Tables, spark: SparkSession) -> None:
    with pytest.raises(UsageError, match=r"there is no table t; pykraft pipeline run creates it"):
        tables.read(spark, "t")


def test_a_folder_that_cannot_be_written_is_an_error(tables: Tables, spark: SparkSession) -> None:
    tables.root.write_bytes(b"a file stands here")
    with pytest.raises(StorageError):
        append(tables, "t", frame(spark, 1), commit(0))


@pytest.mark.parametrize("fails", ["with its last row", "when its file is whole"])
def test_rows_of_a_task_that_failed_late_and_was_tried_again_are_there_once(
    fails: str, tables: Tables, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first attempt of each task leaves a sound file of all its rows."""
    write_one, is_late = write_parquet_file, fails == "when its file is whole"

    def write_and_fail(groups: Iterator[pa.RecordBatch], folder: Path, columns: pa.Schema) -> ParquetFile | None:
        is_first = cast("TaskContext", TaskContext.get()).attemptNumber() == 0

        def broken() -> Iterator[pa.RecordBatch]:
            yield from groups
            if is_first and not is_late:
                raise RuntimeError("late")

        part = write_one(broken(), folder, columns)
        if is_first:
            raise RuntimeError("later")
        return part

    monkeypatch.setattr(parquet_files, "write_parquet_file", write_and_fail)
    rows = frame(spark, *range(10)).repartition(2)
    assert append(tables, "t", rows, commit(0)) == 10
    assert tables.replace("r", rows) == 10
    monkeypatch.undo()
    assert ids(spark, tables) == list(range(10))
    assert tables.read(spark, "r").count() == 10
