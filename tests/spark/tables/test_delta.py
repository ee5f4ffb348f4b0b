"""A Delta table of ours is one to every other reader of Delta."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from pykraft.spark.tables.delta import DeltaTables
from tests.spark.tables.frames import frame

pytestmark = pytest.mark.spark


def test_other_readers_see_the_same_delta_table(tmp_path: Path, spark: SparkSession) -> None:
    tables = DeltaTables(tmp_path)
    tables.append("t", frame(spark, 1, 2), stream="s", batch_id=4)
    read = DeltaTable(tmp_path / "t")
    assert read.count() == 2
    assert read.transaction_version("s") == 4
    assert sorted(read.to_pyarrow_table()["id"].to_pylist()) == [1, 2]
