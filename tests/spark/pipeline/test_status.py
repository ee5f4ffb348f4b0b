"""The progress of a pipeline, read from its folder without Spark."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import StorageError, UsageError
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.pipeline.status import commit_of, end_offset, last_batch_id, pipeline_status
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


FILES = (
    {"cluster": "c", "replicas": {"n2": {"offset": 8, "began": 2}, "n1": {"offset": 6, "began": 0, "crc": 7}}},
    {"cluster": "c", "replicas": {"n1": {"offset": 9, "began": 0, "crc": 8}, "n2": {"offset": 8, "began": 2}}},
)
LIVE = ({"cluster": "c", "offset": 6, "began": 1}, {"cluster": "c", "offset": 9, "began": 1})


def checkpoint(folder: Path, *offsets: dict[str, Any]) -> Path:
    (folder / "offsets").mkdir()
    for number, offset in enumerate(offsets):
        (folder / "offsets" / str(number)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")
    return folder


def test_a_micro_batch_goes_from_the_end_of_the_one_before_it_to_its_own(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, *LIVE)
    assert commit_of(folder, "s", 0).start == {"cluster": "c", "offset": 1}
    assert commit_of(folder, "s", 0).end == commit_of(folder, "s", 1).start == {"cluster": "c", "offset": 6}
    assert commit_of(folder, "s", 1).end == {"cluster": "c", "offset": 9}


def test_of_replicas_only_the_offsets_are_compared(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, *FILES)
    assert commit_of(folder, "s", 0).start == {"cluster": "c", "replicas": {"n1": 0, "n2": 2}}
    assert commit_of(folder, "s", 1).start == {"cluster": "c", "replicas": {"n1": 6, "n2": 8}}
    assert commit_of(folder, "s", 1).end == {"cluster": "c", "replicas": {"n1": 9, "n2": 8}}


@pytest.mark.parametrize("text", ["v1", "v1\n{}\nnot json", "v1\n{}\n7"])
def test_a_file_that_is_not_as_expected_stops_the_pipeline(text: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, *LIVE)
    (folder / "offsets" / "1").write_text(text)
    assert end_offset(folder, 1) is None
    with pytest.raises(StorageError, match="does not contain the end of the micro-batch"):
        commit_of(folder, "s", 1)
    with pytest.raises(StorageError, match="does not contain"):
        commit_of(folder, "s", 7)


def test_the_last_micro_batch_that_is_done(tmp_path: Path) -> None:
    assert last_batch_id(tmp_path) is None
    (tmp_path / "commits").mkdir()
    assert last_batch_id(tmp_path) is None
    for name in ("9", "10", ".10.crc"):
        (tmp_path / "commits" / name).touch()
    assert last_batch_id(tmp_path) == 10
