"""What the demo found, as problems in words and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from pykraft.client.journal import Acknowledged
from pykraft.client.journal_check import Verdict
from pykraft.spark.audit import Audit
from pykraft.spark.demo.result import Result, latencies_ms
from pykraft.types import Epoch, NodeId, Offset

pytestmark = pytest.mark.spark

CLEAN = Result(
    audit=Audit(
        committed_records=90,
        acknowledged=90,
        spark_rows=95,
        duplicates=0,
        missing=0,
        out_of_order=0,
        leader_epochs=2,
        replicas_identical=True,
    ),
    verdict=Verdict(acknowledged=90, found=90),
    failover_ms=800,
    seconds=4.0,
    latency_ms={"p50": 3.0, "p99": 9.0},
)

PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"acknowledged": 0}, "no record was acknowledged"),
    ({"duplicates": 2}, "2 records stand in the log twice"),
    ({"missing": 3}, "3 acknowledged records are missing"),
    ({"out_of_order": 1}, "1 records are out of order"),
    ({"replicas_identical": False}, "the replicas differ"),
    ({"leader_epochs": 1}, "the leader was killed, but nobody else led"),
]


@pytest.mark.parametrize(("change", "problem"), PROBLEMS)
def test_each_fault_is_a_problem(change: dict[str, Any], problem: str) -> None:
    assert CLEAN.problems == []
    assert replace(CLEAN, audit=replace(CLEAN.audit, **change)).problems == [problem]


def test_one_epoch_is_enough_when_nobody_was_killed() -> None:
    assert replace(CLEAN, failover_ms=None, audit=replace(CLEAN.audit, leader_epochs=1)).problems == []


def test_problems_found_without_spark_are_problems() -> None:
    assert replace(CLEAN, verdict=Verdict(problems=("a step back",))).problems == ["a step back"]


def test_the_json_has_the_counts_and_the_times() -> None:
    assert json.loads(json.dumps(CLEAN.as_json())) == {
        "committed_records": 90,
        "acknowledged": 90,
        "spark_rows": 95,
        "duplicates": 0,
        "missing": 0,
        "out_of_order": 0,
        "leader_epochs": 2,
        "replicas_identical": True,
        "seconds": 4.0,
        "records_per_second": 22.5,
        "failover_ms": 800,
        "commit_latency_ms": {"p50": 3.0, "p99": 9.0},
        "problems": [],
    }


def test_latencies_count_records_and_not_acknowledgements() -> None:
    def said(count: int, latency_ms: float) -> Acknowledged:
        return Acknowledged(
            node=NodeId(1),
            run=bytes(8),
            epoch=Epoch(1),
            first_sequence=0,
            count=count,
            base_offset=Offset(0),
            wall_ms=0,
            latency_ms=latency_ms,
        )

    assert latencies_ms([said(1, 9.0), said(98, 2.0), said(1, 30.0)]) == {"p50": 2.0, "p99": 9.0}
    assert latencies_ms([]) == {"p50": 0.0, "p99": 0.0}
