"""Files hold the rows of their tasks; a task without rows writes none."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from pykraft.errors import StorageError
from pykraft.spark.tables.parquet_files import write_parquet_files
from tests.spark.tables.frames import frame

pytestmark = pytest.mark.spark


def test_each_task_with_rows_writes_one_file(spark: SparkSession, tmp_path: Path) -> None:
    rows = frame(spark, *range(10)).repartition(3)
    parts = write_parquet_files(rows.unionAll(frame(spark)), tmp_path / "made" / "here")
    assert sum(part.rows for part in parts) == 10
    for part in parts:
        path = tmp_path / "made" / "here" / part.name
        assert (path.stat().st_size, pq.read_metadata(path).num_rows) == (part.size_bytes, part.rows)
        assert part.rows > 0
        assert abs(path.stat().st_mtime * 1_000 - part.modified_ms) < 2


def test_a_folder_that_cannot_be_made_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match="cannot be made"):
        write_parquet_files(frame(spark, 1), tmp_path / "file" / "t")
