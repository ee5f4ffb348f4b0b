"""A folder is completely in the table or not at all; other readers of Parquet see the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from pykraft.errors import StorageError, UsageError
from pykraft.spark.tables import parquet
from pykraft.spark.tables.parquet import ParquetTables
from pykraft.spark.tables.parquet_files import write_parquet_files
from pykraft.spark.tables.parquet_writer import ParquetFile
from tests.spark.tables.commits import commit
from tests.spark.tables.frames import frame, ids

pytestmark = pytest.mark.spark


def others_see(spark: SparkSession, folder: Path) -> int:
    """Rows of the table, to a reader that knows nothing of ours."""
    return spark.read.option("recursiveFileLookup", "true").parquet(str(folder / "t")).count()


def test_what_a_killed_writer_left_is_in_no_table(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ParquetTables(tmp_path)
    tables.append("t", frame(spark, 1), commit(0))

    def die(folder: Path) -> None:
        raise KeyboardInterrupt(folder)

    with monkeypatch.context() as killed:
        killed.setattr(parquet, "sync_folder", die)
        with pytest.raises(KeyboardInterrupt):
            tables.append("t", frame(spark, 2), commit(1))
    assert ids(spark, tables) == [1]
    assert [path.name for path in (tmp_path / "t").iterdir() if path.name.startswith(".")] == [".s-0000000001"]
    assert others_see(spark, tmp_path) == 1
    assert tables.append("t", frame(spark, 2), commit(1)) == 1
    assert ids(spark, tables) == [1, 2]


def test_a_copy_of_a_task_that_ends_when_all_is_done_finds_nothing_to_write_into(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's speculation: 1. both copies run; 2. one is told; 3. the other ends its file, or only begins it."""
    tables, folders = ParquetTables(tmp_path), []

    def write_with_a_copy(rows: DataFrame, folder: Path) -> list[ParquetFile]:
        told = write_parquet_files(rows, folder)
        write_parquet_files(rows, folder)
        folders.append(folder)
        return told

    monkeypatch.setattr(parquet, "write_parquet_files", write_with_a_copy)
    assert tables.append("t", frame(spark, 1, 2), commit(0)) == 2
    (folder,) = folders
    assert not folder.exists()
    assert ids(spark, tables) == [1, 2]
    assert others_see(spark, tmp_path) == 2


def test_an_append_that_does_not_tell_what_it_is_stops_the_next_one(tmp_path: Path, spark: SparkSession) -> None:
    tables = ParquetTables(tmp_path)
    tables.append("t", frame(spark, 1), commit(0))
    note = tmp_path / "t" / "s-0000000000" / parquet.COMMIT
    note.write_text("{}")
    with pytest.raises(StorageError, match="does not tell which append this is"):
        tables.append("t", frame(spark, 2), commit(1))
    note.unlink()
    with pytest.raises(UsageError, match="an older pykraft or another program wrote it"):
        tables.append("t", frame(spark, 2), commit(1))
