"""A folder is in the table or not at all; other readers of Parquet see the same rows."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.spark.tables import parquet
from pykraft.spark.tables.parquet import ParquetTables
from tests.spark.tables.frames import frame, ids

pytestmark = pytest.mark.spark


def test_what_a_killed_writer_left_is_in_no_table(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables = ParquetTables(tmp_path)
    tables.append("t", frame(spark, 1), stream="s", batch_id=0)

    def die(folder: Path) -> None:
        raise KeyboardInterrupt(folder)

    with monkeypatch.context() as killed:
        killed.setattr(parquet, "_sync_folder", die)
        with pytest.raises(KeyboardInterrupt):
            tables.append("t", frame(spark, 2), stream="s", batch_id=1)
    assert ids(spark, tables) == [1]
    assert [path.name for path in (tmp_path / "t").iterdir() if path.name.startswith(".")] == [".s-0000000001"]
    assert spark.read.option("recursiveFileLookup", "true").parquet(str(tmp_path / "t")).count() == 1
    assert tables.append("t", frame(spark, 2), stream="s", batch_id=1) == 1
    assert ids(spark, tables) == [1, 2]
