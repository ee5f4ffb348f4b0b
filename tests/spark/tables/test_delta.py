"""Other readers of Delta can read our Delta tables."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from deltalake.transaction import AddAction
from pyspark.sql import SparkSession

from pykraft.errors import StorageError
from pykraft.spark.tables import delta
from pykraft.spark.tables.delta import DeltaTables
from pykraft.spark.tables.delta_log import add_action
from pykraft.spark.tables.parquet_files import write_parquet_files
from pykraft.spark.tables.parquet_writer import ParquetFile
from tests.spark.tables.commits import commit
from tests.spark.tables.frames import append, frame, ids

pytestmark = pytest.mark.spark


def test_other_readers_see_the_same_delta_table(tmp_path: Path, spark: SparkSession) -> None:
    tables = DeltaTables(tmp_path)
    append(tables, "t", frame(spark, 1, 2), commit(0))
    read = DeltaTable(tmp_path / "t")
    assert read.count() == 2
    assert read.transaction_version("s") == 0
    assert sorted(read.to_pyarrow_table()["id"].to_pylist()) == [1, 2]


@pytest.mark.parametrize("before", [0, 1], ids=["the first", "a later one"])
def test_files_of_an_append_that_was_killed_before_its_commit_are_in_no_table(
    before: int, tmp_path: Path, spark: SparkSession
) -> None:
    tables = DeltaTables(tmp_path)
    for number in range(before):
        append(tables, "t", frame(spark, number), commit(number))
    rows = frame(spark, 7, 8)
    killed = tables.begin("t", rows.schema, commit(before))
    assert killed is not None
    assert write_parquet_files(rows, killed.folder)
    assert tables.has("t") == (before > 0)
    assert append(tables, "t", rows, commit(before)) == 2
    assert ids(spark, tables) == [*range(before), 7, 8]
    assert len(list((tmp_path / "t").glob("*.parquet"))) > len(DeltaTable(tmp_path / "t").file_uris())


def test_an_append_that_another_program_made_meanwhile_is_not_made_again(tmp_path: Path, spark: SparkSession) -> None:
    """Two drivers of one checkpoint write the same micro-batch, and the slower one commits what the other one has."""
    tables, rows = DeltaTables(tmp_path), frame(spark, 2, 3)
    append(tables, "t", frame(spark, 1), commit(0))
    slow = tables.begin("t", rows.schema, commit(1))
    assert slow is not None
    files = write_parquet_files(rows, slow.folder)
    assert append(tables, "t", rows, commit(1)) == 2
    assert slow.finish(files) is None
    assert ids(spark, tables) == [1, 2, 3]


def test_commits_of_other_writers_in_between_are_passed_over(tmp_path: Path, spark: SparkSession) -> None:
    tables = DeltaTables(tmp_path)
    for number in range(2):
        append(tables, "t", frame(spark, number), commit(number))
    DeltaTable(tmp_path / "t").optimize.compact()
    assert tables.newest("t") == commit(1)
    assert append(tables, "t", frame(spark, 1), commit(1)) is None
    assert append(tables, "t", frame(spark, 2), commit(2)) == 1
    assert ids(spark, tables) == [0, 1, 2]


def test_an_append_is_tried_again_when_others_change_the_table(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another program adds a property while the tasks write, once and then each time."""
    tables = DeltaTables(tmp_path)
    append(tables, "t", frame(spark, 1), commit(0))
    changes = 1

    def add_late(file: ParquetFile) -> AddAction:
        nonlocal changes
        if changes:
            changes -= 1
            DeltaTable(tmp_path / "t").alter.set_table_properties({"delta.checkpointInterval": str(100 + changes)})
        return add_action(file)

    monkeypatch.setattr(delta, "add_action", add_late)
    assert append(tables, "t", frame(spark, 2).coalesce(1), commit(1)) == 1
    assert ids(spark, tables) == [1, 2]
    changes = delta.COMMIT_ATTEMPTS_MAX
    with pytest.raises(StorageError, match="other programs change the table all the time"):
        append(tables, "t", frame(spark, 3).coalesce(1), commit(2))
    assert ids(spark, tables) == [1, 2]
