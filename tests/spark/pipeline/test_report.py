"""A report says what the tables hold, of one replica."""

import json
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import UsageError
from pykraft.protocol.records import encode_control_batch
from pykraft.spark.pipeline.report import GOLD, make_report
from pykraft.spark.pipeline.run import PipelineOptions, start_pipeline
from pykraft.spark.tables.delta import DeltaTables
from pykraft.types import Epoch, LeaderChange, NodeId, Offset
from tests.spark.logs import START_MS, batch, write_segment

pytestmark = pytest.mark.spark


def opening(leader_id: int, *, base_offset: int, epoch: int, timestamp_ms: int) -> bytes:
    """The batch with which a leader begins."""
    change = LeaderChange(leader_id=NodeId(leader_id), voters=(NodeId(1), NodeId(2)), granting_voters=(NodeId(1),))
    return encode_control_batch(
        [change], base_offset=Offset(base_offset), epoch=Epoch(epoch), timestamp_ms=timestamp_ms
    ).data


def test_totals_epochs_and_throughput(spark: SparkSession, tmp_path: Path) -> None:
    first = opening(1, base_offset=0, epoch=1, timestamp_ms=START_MS)
    first += batch([b"12345", b"12345"], base_offset=1, epoch=1, timestamp_ms=START_MS + 10)
    second = opening(2, base_offset=3, epoch=2, timestamp_ms=START_MS + 900)
    second += batch([b"12345"], base_offset=4, epoch=2, timestamp_ms=START_MS + 1_000)
    write_segment(tmp_path / "n1" / "p-0", first)
    write_segment(tmp_path / "n2" / "p-0", first + second)
    root = tmp_path / "tables"
    options = PipelineOptions(source={"path": f"{tmp_path}/n*/p-0"}, root=root)
    start_pipeline(spark, options).awaitTermination()

    found = make_report(spark, DeltaTables(root))
    assert (found.replica, found.replicas) == ("n2", ["n1", "n2"])
    assert (found.records, found.control_records, found.corrupt) == (3, 2, 0)
    assert (found.first_offset, found.last_offset) == (0, 4)
    assert [(row["epoch"], row["leader_id"], row["records"], row["gap_ms"]) for row in found.epochs] == [
        (1, 1, 2, None),
        (2, 2, 1, 990),
    ]
    assert [row["records"] for row in found.throughput] == [2, 1]
    plain = json.loads(json.dumps(found.as_json()))
    assert plain["epochs"][1]["leader_id"] == 2
    assert plain["throughput"][0]["begin"].startswith("2023-11-14T22:13:20")

    assert make_report(spark, DeltaTables(root), replica="n1").records == 2
    with pytest.raises(UsageError, match=r"no rows of replica n9, only of \['n1', 'n2'\]"):
        make_report(spark, DeltaTables(root), replica="n9")


def test_what_gold_found_becomes_tables(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "n1" / "p-0", opening(1, base_offset=0, epoch=1, timestamp_ms=START_MS))
    options = PipelineOptions(source={"path": f"{tmp_path}/n1/p-0"}, root=tmp_path / "tables")
    start_pipeline(spark, options).awaitTermination()
    tables = options.tables()
    found = make_report(spark, tables, every="10 seconds", is_written=True)
    for name, table in GOLD.items():
        assert tables.read(spark, table).count() == len(getattr(found, name))


def test_without_tables_there_is_no_report(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no table silver_records"):
        make_report(spark, DeltaTables(tmp_path))
