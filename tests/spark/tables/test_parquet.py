"""A folder is completely in the table or not at all; other readers of Parquet see the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import StorageError, UsageError
from pykraft.spark.tables import parquet
from pykraft.spark.tables.parquet import ParquetTables
from pykraft.spark.tables.parquet_files import write_parquet_files
from tests.spark.tables.commits import commit
from tests.spark.tables.frames import append, frame, ids

pytestmark = pytest.mark.spark


def others_see(spark: SparkSession, folder: Path) -> int:
    """Rows of the table, to a reader that knows nothing of ours."""
    return spark.read.option("recursiveFileLookup", "true").parquet(str(folder / "t")).count()


def test_what_a_killed_writer_left_is_in_no_table(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ParquetTables(tmp_path)
    append(tables, "t", frame(spark, 1), commit(0))

    def die(folder: Path) -> None:
        raise KeyboardInterrupt(folder)

    with monkeypatch.context() as killed:
        killed.setattr(parquet, "sync_folder", die)
        with pytest.raises(KeyboardInterrupt):
            append(tables, "t", frame(spark, 2), commit(1))
    assert ids(spark, tables) == [1]
    assert [path.name for path in (tmp_path / "t").iterdir() if path.name.startswith(".")] == [".s-0000000001"]
    assert others_see(spark, tmp_path) == 1
    assert append(tables, "t", frame(spark, 2), commit(1)) == 1
    assert ids(spark, tables) == [1, 2]


def test_a_copy_of_a_task_that_ends_when_all_is_done_finds_nothing_to_write_into(
    tmp_path: Path, spark: SparkSession
) -> None:
    """Spark's speculation: 1. both copies run; 2. one is told; 3. the other ends its file, or only begins it."""
    tables, rows = ParquetTables(tmp_path), frame(spark, 1, 2)
    begun = tables.begin("t", rows.schema, commit(0))
    assert begun is not None
    told, _ = (write_parquet_files(rows, begun.folder) for _ in range(2))
    assert begun.finish(told) == 2
    assert not begun.folder.exists()
    assert ids(spark, tables) == [1, 2]
    assert others_see(spark, tmp_path) == 2


def test_an_append_that_does_not_tell_what_it_is_stops_the_next_one(tmp_path: Path, spark: SparkSession) -> None:
    tables = ParquetTables(tmp_path)
    append(tables, "t", frame(spark, 1), commit(0))
    note = tmp_path / "t" / "s-0000000000" / parquet.COMMIT
    note.write_text("{}")
    with pytest.raises(StorageError, match="does not tell which append this is"):
        append(tables, "t", frame(spark, 2), commit(1))
    note.unlink()
    with pytest.raises(UsageError, match="an older pykraft or another program wrote it"):
        append(tables, "t", frame(spark, 2), commit(1))
