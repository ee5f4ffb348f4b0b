"""Observations become rows: one for each acknowledgement, one for each replica and sample."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pykraft.errors import UsageError
from pykraft.local.sampler import QuorumSample, ReplicaSample
from pykraft.spark.pipeline.watched import acknowledgements, looks, read_journal

pytestmark = pytest.mark.spark
LEADER = b'{"event":"leader","node":1,"run":"0102030405060708","epoch":3}\n'
SAID = (
    b'{"event":"ack","node":1,"run":"0102030405060708","epoch":3,"first_sequence":0,"count":5,"base_offset":1,'
    b'"wall_ms":1700,"latency_ms":2}\n'
)


def test_a_journal_becomes_rows(spark: SparkSession, tmp_path: Path) -> None:
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(LEADER + SAID + SAID[:20])
    rows = acknowledgements(spark, read_journal(journal)).collect()
    assert [tuple(row) for row in rows] == [(1, "0102030405060708", 3, 0, 5, 1, 1700, 2.0)]


def test_looks_become_rows_and_those_without_an_answer_none(spark: SparkSession) -> None:
    replicas = {
        1: ReplicaSample(log_end_offset=9, lag=0, last_caught_up_ms=1700),
        2: ReplicaSample(log_end_offset=-1, lag=-1, last_caught_up_ms=-1),
    }
    samples = [QuorumSample(wall_ms=1600), QuorumSample(wall_ms=1700, leader_id=1, epoch=3, replicas=replicas)]
    assert [tuple(row) for row in looks(spark, samples).collect()] == [
        (1700, 1, 3, 1, 9, 1700),
        (1700, 1, 3, 2, -1, -1),
    ]


@pytest.mark.parametrize(("content", "told"), [(b"nonsense\n", "not a line of a journal"), (None, "No such file")])
def test_what_is_no_journal_is_told(tmp_path: Path, content: bytes | None, told: str) -> None:
    journal = tmp_path / "journal.jsonl"
    if content is not None:
        journal.write_bytes(content)
    with pytest.raises(UsageError, match=told):
        read_journal(journal)
