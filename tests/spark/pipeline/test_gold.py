"""Gold: a few rows that can be checked by hand."""

from datetime import UTC, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from pykraft.spark.pipeline import gold

pytestmark = pytest.mark.spark

START = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
START_MS = int(START.timestamp() * 1_000)


def at(ms: int) -> datetime:
    return START + timedelta(milliseconds=ms)


def records(spark: SparkSession, *rows: tuple[int, int, int, bool]) -> DataFrame:
    """Offset, epoch, ms, and whether it is the quorum's own; each data record has five bytes."""
    made = [
        ("n1", offset, epoch, at(ms), is_control, None if is_control else b"12345")
        for offset, epoch, ms, is_control in rows
    ]
    columns = "replica string, offset long, epoch int, timestamp timestamp, is_control boolean, value binary"
    return spark.createDataFrame(made, columns)


def control(spark: SparkSession, *rows: tuple[int, int, int, int]) -> DataFrame:
    """Offset, epoch, ms and leader of LeaderChange records."""
    made = [(offset, epoch, at(ms), "LeaderChange", leader) for offset, epoch, ms, leader in rows]
    return spark.createDataFrame(
        made, "offset long, epoch int, timestamp timestamp, control_type string, leader_id int"
    )


def test_throughput_counts_data_by_time(spark: SparkSession) -> None:
    rows = records(spark, (0, 1, 0, True), (1, 1, 10, False), (2, 1, 999, False), (3, 1, 2_000, False))
    assertDataFrameEqual(
        gold.throughput(rows),
        spark.createDataFrame(
            [(at(0), 2, 10, 2), (at(2_000), 1, 5, 3)],
            "begin timestamp, records long, size_bytes long, last_offset long",
        ),
        ignoreNullable=True,
    )
    assert gold.throughput(rows, every="5 seconds").collect()[0]["records"] == 3
    assert gold.throughput(records(spark)).collect() == []


def test_epochs_say_who_led_and_how_long_nobody_wrote(spark: SparkSession) -> None:
    rows = records(
        spark,
        (0, 1, 0, True),
        (1, 1, 10, False),
        (2, 1, 100, False),
        (3, 2, 900, True),
        (4, 3, 950, True),
        (5, 3, 975, False),
    )
    found = gold.epochs(rows, control(spark, (0, 1, 0, 1), (3, 2, 900, 2), (4, 3, 950, 3))).collect()
    told = [
        (row["epoch"], row["leader_id"], row["first_offset"], row["last_offset"], row["records"], row["gap_ms"])
        for row in found
    ]
    assert told == [(1, 1, 0, 2, 2, None), (2, 2, 3, 3, 0, None), (3, 3, 4, 5, 1, 75)]
    assert [(row["begun"].timestamp() * 1_000 - START_MS) for row in found] == [0, 900, 950]


def test_one_replica_is_chosen(spark: SparkSession) -> None:
    rows = spark.createDataFrame([("n1", 1), ("n2", 1), (None, 1)], "replica string, offset long")
    assert gold.of_replica(rows, "n1").count() == 1
    assert gold.of_replica(rows, None).collect()[0]["replica"] is None
