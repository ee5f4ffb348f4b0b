"""Silver rows are the records of the bronze batches, equal to the source's own; control records are apart."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own custom
from pyspark.testing import assertDataFrameEqual

from lab.demo.audit import payload_columns
from pykraft.protocol.records import encode_control_batch
from pykraft.spark.pipeline import silver
from pykraft.types import Epoch, KRaftVersion, LeaderChange, NodeId, Offset
from tests.spark.logs import EPOCH, RUN, START_MS, batch, payload, three_batches, write_segment

pytestmark = pytest.mark.spark

GOLDEN = Path(__file__).parents[2] / "golden"


def bronze(spark: SparkSession, *paths: Path | str, **options: str) -> DataFrame:
    """Rows of batches."""
    return source(spark, *paths, rows="batches", **options)


def source(spark: SparkSession, *paths: Path | str, **options: str) -> DataFrame:
    return spark.read.format("pykraft").options(**options).load([str(path) for path in paths])


@pytest.mark.parametrize("quorum", ["static/disk/n*/data/__cluster_metadata-0", "raft/disk/n*/data/__raft*-0"])
def test_records_are_those_that_the_source_reads(quorum: str, spark: SparkSession) -> None:
    paths = sorted(GOLDEN.glob(quorum))
    assert len(paths) > 1
    assertDataFrameEqual(silver.records(bronze(spark, *paths)), source(spark, *paths))


def test_batches_in_any_order_and_division_give_the_same_records(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path / "n1", b"".join(three_batches()))
    write_segment(tmp_path / "n1", batch([b"a3", b"b3"], base_offset=6), base_offset=6)
    write_segment(tmp_path / "n2", b"".join(three_batches()))
    shuffled = bronze(spark, tmp_path / "n1", tmp_path / "n2").orderBy("crc", "replica").repartition(3)
    assertDataFrameEqual(silver.records(shuffled), source(spark, tmp_path / "n1", tmp_path / "n2"))


def test_a_marked_batch_is_a_marked_row(spark: SparkSession, tmp_path: Path) -> None:
    first, second, third = three_batches()
    write_segment(tmp_path, first + second[:-1] + b"!" + third)
    assertDataFrameEqual(
        silver.records(bronze(spark, tmp_path, corrupt="mark")), source(spark, tmp_path, corrupt="mark")
    )


def test_control_records_are_told(spark: SparkSession, tmp_path: Path) -> None:
    voters = (NodeId(1), NodeId(2), NodeId(3))
    change = LeaderChange(leader_id=NodeId(2), voters=voters, granting_voters=voters[1:])
    control = encode_control_batch(
        [change, KRaftVersion(level=1)], base_offset=Offset(0), epoch=Epoch(EPOCH), timestamp_ms=START_MS
    ).data
    write_segment(tmp_path, control + batch([b"data"], base_offset=2))
    first, second = silver.control(source(spark, tmp_path)).orderBy("offset").collect()
    assert (first["offset"], first["epoch"], first["control_type"]) == (0, EPOCH, "LeaderChange")
    assert (first["leader_id"], first["voters"], first["granting_voters"]) == (2, [1, 2, 3], [2, 3])
    assert json.loads(first["body"])["leader_id"] == 2
    assert (second["control_type"], second["leader_id"], second["voters"]) == ("KRaftVersion", None, None)
    assert json.loads(second["body"])["k_raft_version"] == 1


def test_a_control_record_that_cannot_be_read_says_so(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path, three_batches()[0])
    broken = source(spark, tmp_path).selectExpr(
        "replica", "offset", "epoch", "timestamp", "true AS is_control", "control_type", "X'0000' AS key", "value"
    )
    bodies = [json.loads(row["body"]) for row in silver.control(broken).collect()]
    assert [list(body) for body in bodies] == [["problem"], ["problem"]]


def test_payloads_are_the_workload_s(spark: SparkSession, tmp_path: Path) -> None:
    write_segment(tmp_path, batch([payload(7), b"a stranger's", payload(8, rest=b"")], base_offset=0))
    found = silver.payloads(source(spark, tmp_path)).orderBy("offset").collect()
    assert [(row["offset"], row["run"], row["claim_epoch"], row["sequence"], row["size_bytes"]) for row in found] == [
        (0, RUN.hex(), EPOCH, 7, 26),
        (2, RUN.hex(), EPOCH, 8, 20),
    ]


def test_payloads_are_those_that_the_audit_reads_from_values(spark: SparkSession) -> None:
    """Also at the limits of the numbers, and for values that are almost a workload's."""
    heads = [
        (run, epoch, sequence)
        for run in (RUN, bytes(8), b"\x00" * 7 + b"\x01", b"\xff" * 8)
        for epoch in (0, 1, 2**31 - 1, 2**31, 2**32 - 1)
        for sequence in (0, 1, 2**63 - 1, 2**63, 2**64 - 1)
    ]
    values = [run + epoch.to_bytes(4, "big") + sequence.to_bytes(8, "big") for run, epoch, sequence in heads]
    values += [value + b"rest" * (number % 3) for number, value in enumerate(values)]
    rows = [
        ("n1", offset, EPOCH, None, is_control, value)
        for offset, value in enumerate([*values, payload(7)[:19], b"", None])
        for is_control in (False, True, None)
    ]
    columns = "replica string, offset bigint, epoch int, timestamp timestamp, is_control boolean, value binary"
    given = spark.createDataFrame(rows, columns)
    told = payload_columns(given).withColumn("size_bytes", F.length("value")).select(*silver.PAYLOADS.names)
    assert 0 < told.count() < len(values)
    assertDataFrameEqual(silver.payloads(given), told, ignoreNullable=True)
