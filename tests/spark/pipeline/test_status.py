"""The progress of a pipeline, read from its folder without Spark."""

from dataclasses import asdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import UsageError
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.pipeline.status import last_batch_id, pipeline_status
from pykraft.spark.tables.names import BRONZE, CHECKPOINT, CONTROL, RECORDS
from tests.spark.logs import three_batches, write_segment

pytestmark = pytest.mark.spark


def test_rows_and_place(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "n1" / "p-0", b"".join(three_batches()))
    root = tmp_path / "tables"
    source = {"path": str(tmp_path / "n1" / "p-0"), "maxRecordsPerTrigger": "4"}
    start_pipeline(spark, PipelineOptions(source=source, root=root)).awaitTermination()
    found = pipeline_status(root)
    assert asdict(found)["table_format"] == "delta"
    rows = {name: table.rows for name, table in found.tables.items()}
    assert rows == {BRONZE: 3, RECORDS: 6, CONTROL: 0}
    assert found.tables[BRONZE].files == 2
    assert found.tables[BRONZE].size_bytes > 0
    assert found.batch_id == 1
    assert found.source is not None
    (place,) = found.source["replicas"].values()
    assert place["offset"] == 6
    assert "marks" not in place, "they would fill the screen"
    assert asdict(found)["tables"][RECORDS]["rows"] == 6
    (root / CHECKPOINT / "offsets" / "1").write_text("v1\n{}\nnot json")
    assert pipeline_status(root).source is None


def test_a_pipeline_that_has_only_begun(tmp_path: Path) -> None:
    (tmp_path / CHECKPOINT).mkdir()
    found = pipeline_status(tmp_path)
    assert (found.tables, found.batch_id, found.source) == ({}, None, None)


def test_a_folder_without_a_pipeline_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no pipeline has written there"):
        pipeline_status(tmp_path)


def test_the_last_micro_batch_that_is_done(tmp_path: Path) -> None:
    assert last_batch_id(tmp_path) is None
    (tmp_path / "commits").mkdir()
    assert last_batch_id(tmp_path) is None
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()
    assert last_batch_id(tmp_path) == 10
