"""The audit is clean over a clean log, and tells each planted fault for what it is."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from pykraft.client.journal import Acknowledged
from pykraft.protocol.records import encode_control_batch
from pykraft.spark.audit import Audit, acknowledged_frame, audit, payload_columns
from pykraft.types import Epoch, KRaftVersion, NodeId, Offset
from tests.spark.logs import EPOCH, RUN, START_MS, batch, payload, write_segment

pytestmark = pytest.mark.spark

BASE_OFFSET = 1
COUNT = 6
CLEAN = [payload(sequence) for sequence in range(COUNT)]


def said(
    count: int = COUNT, *, first_sequence: int = 0, epoch: int = EPOCH, base_offset: int = BASE_OFFSET
) -> Acknowledged:
    """Acknowledged records of node 1."""
    return Acknowledged(
        node=NodeId(1),
        run=RUN,
        epoch=Epoch(epoch),
        first_sequence=first_sequence,
        count=count,
        base_offset=Offset(base_offset),
        wall_ms=START_MS,
        latency_ms=1.0,
    )


def log(values: Sequence[bytes], *, later: Sequence[bytes] = ()) -> bytes:
    """A control record at offset 0, then the values two a batch, then others in the next epoch."""
    parts = [
        encode_control_batch([KRaftVersion(level=0)], base_offset=Offset(0), epoch=Epoch(EPOCH), timestamp_ms=START_MS)
    ]
    offset = BASE_OFFSET
    for epoch, these in ((EPOCH, values), (EPOCH + 1, later)):
        for start in range(0, len(these), 2):
            parts.append(batch(these[start : start + 2], base_offset=offset, epoch=epoch))
            offset += len(these[start : start + 2])
    return b"".join(parts)


def audited(spark: SparkSession, folder: Path, logs: Sequence[bytes], *acknowledged: Acknowledged) -> Audit:
    """The audit of replicas with these logs; all had what was acknowledged."""
    for number, data in enumerate(logs, start=1):
        write_segment(folder / f"n{number}" / "p-0", data)
    records = spark.read.format("pykraft").load(f"{folder}/*/p-0")
    frame = acknowledged_frame(spark, acknowledged)
    end_offset = max((one.end_offset for one in acknowledged), default=0)
    return audit(records, frame, replicas=len(logs), until_offset=end_offset)


def test_a_clean_log_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    later = [payload(sequence, epoch=EPOCH + 1) for sequence in range(4)]
    more = said(2, epoch=EPOCH + 1, base_offset=BASE_OFFSET + COUNT)
    found = audited(
        spark, tmp_path, [log(CLEAN, later=later)] * 3, said(2), said(4, first_sequence=2, base_offset=3), more
    )
    assert found.is_clean
    assert found == Audit(
        committed_records=8,
        acknowledged=8,
        spark_rows=10,
        duplicates=0,
        missing=0,
        out_of_order=0,
        leader_epochs=2,
        replicas_identical=True,
    )


def test_a_record_that_stands_twice_is_a_duplicate(spark: SparkSession, tmp_path: Path) -> None:
    found = audited(spark, tmp_path, [log([*CLEAN, CLEAN[2]])], said())
    assert (found.duplicates, found.missing, found.is_clean) == (1, 0, False)


def test_a_gap_is_missing_and_so_is_what_moved_because_of_it(spark: SparkSession, tmp_path: Path) -> None:
    found = audited(spark, tmp_path, [log([*CLEAN[:3], *CLEAN[4:]])], said())
    assert (found.duplicates, found.missing, found.out_of_order) == (0, 3, 0)
    assert not found.is_clean


def test_a_swapped_pair_is_out_of_order(spark: SparkSession, tmp_path: Path) -> None:
    found = audited(spark, tmp_path, [log([CLEAN[0], CLEAN[2], CLEAN[1], *CLEAN[3:]])], said())
    assert (found.out_of_order, found.missing, found.is_clean) == (1, 2, False)


def test_another_value_in_one_replica_makes_them_differ(spark: SparkSession, tmp_path: Path) -> None:
    other = [*CLEAN[:4], payload(4, rest=b"RANDOM"), CLEAN[5]]
    found = audited(spark, tmp_path, [log(CLEAN), log(CLEAN), log(other)], said())
    assert (found.replicas_identical, found.missing, found.is_clean) == (False, 0, False)


def test_a_replica_that_ends_early_makes_them_differ(spark: SparkSession, tmp_path: Path) -> None:
    assert not audited(spark, tmp_path, [log(CLEAN), log(CLEAN[:4])], said()).replicas_identical


def test_behind_what_all_had_a_replica_may_be_shorter(spark: SparkSession, tmp_path: Path) -> None:
    assert audited(spark, tmp_path, [log(CLEAN), log(CLEAN[:4])], said(4)).is_clean


def test_a_tail_that_no_replica_has_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    found = audited(spark, tmp_path, [log(CLEAN[:4])] * 2, said())
    assert (found.missing, found.replicas_identical, found.committed_records) == (2, True, 4)
    assert not found.is_clean


def test_a_replica_without_a_record_differs(spark: SparkSession, tmp_path: Path) -> None:
    assert not audited(spark, tmp_path, [log(CLEAN), log(CLEAN), b""], said()).replicas_identical


def test_no_replica_with_a_record_is_a_log_that_lacks_everything(spark: SparkSession, tmp_path: Path) -> None:
    found = audited(spark, tmp_path, [b"", b""], said())
    assert (found.missing, found.spark_rows, found.committed_records, found.leader_epochs) == (COUNT, 0, 0, 0)


def test_a_record_in_a_batch_of_another_epoch_than_it_claims_is_missing(spark: SparkSession, tmp_path: Path) -> None:
    other = payload(0, epoch=EPOCH - 1)
    claimed = said(1, epoch=EPOCH - 1, base_offset=BASE_OFFSET + COUNT)
    found = audited(spark, tmp_path, [log([*CLEAN, other])], said(), claimed)
    assert (found.missing, found.duplicates, found.out_of_order) == (1, 0, 0)


@pytest.mark.parametrize("value", [bytes(40), b"\xff" * 40, b"short"], ids=["Kafka's", "no number", "short"])
def test_what_is_not_the_workload_s_is_only_a_row(value: bytes, spark: SparkSession, tmp_path: Path) -> None:
    found = audited(spark, tmp_path, [log([*CLEAN, value, value])], said())
    assert found.is_clean
    assert found.spark_rows == COUNT + 2


def test_a_log_without_an_acknowledgement_can_be_audited(spark: SparkSession, tmp_path: Path) -> None:
    found = audited(spark, tmp_path, [log(CLEAN)])
    assert (found.acknowledged, found.committed_records, found.spark_rows, found.is_clean) == (0, 0, COUNT, False)


def test_a_log_of_which_nothing_was_acknowledged_is_not_clean() -> None:
    nothing = Audit(
        committed_records=0,
        acknowledged=0,
        spark_rows=0,
        duplicates=0,
        missing=0,
        out_of_order=0,
        leader_epochs=1,
        replicas_identical=True,
    )
    assert not nothing.is_clean


def test_what_the_workload_wrote_is_read_from_the_value(spark: SparkSession) -> None:
    large = payload(2**40 + 5, epoch=2**31 - 1)
    records = spark.createDataFrame(
        [(1, False, large), (2, True, large), (3, False, large[:19])], "offset long, is_control boolean, value binary"
    )
    found = payload_columns(records).select("offset", "run", "claim_epoch", "sequence")
    wanted = spark.createDataFrame(
        [(1, RUN.hex(), 2**31 - 1, 2**40 + 5)], "offset long, run string, claim_epoch int, sequence long"
    )
    assertDataFrameEqual(found, wanted, ignoreNullable=True)


def test_acknowledgements_become_a_row_a_record(spark: SparkSession) -> None:
    found = acknowledged_frame(spark, [said(2, first_sequence=7, base_offset=20)])
    wanted = spark.createDataFrame(
        [(RUN.hex(), EPOCH, 7, 20), (RUN.hex(), EPOCH, 8, 21)],
        "run string, claim_epoch int, sequence long, offset long",
    )
    assertDataFrameEqual(found, wanted, ignoreNullable=True)
