"""The result of the demo, as problems in words and as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from lab.demo.live_tables import MicroBatch
from lab.demo.replicas import ReplicaComparison
from lab.demo.result import Result, batch_latencies_ms, commit_latencies_ms
from pykraft.client.journal import Acknowledged
from pykraft.types import Epoch, NodeId, Offset
from tests.lab.demo.audits import clean_audit

pytestmark = pytest.mark.spark

CLEAN = Result(
    audit=replace(clean_audit(95, leader_epochs=2), acknowledged=90),
    comparison=ReplicaComparison(are_identical=True, problems=(), furthest=None),
    failover_ms=800,
    seconds=4.0,
    commit_latency_ms={"p50": 3.0, "p99": 9.0},
    batch_latency_ms={"p50": 900.0, "p99": 1500.0},
)

PROBLEMS: list[tuple[dict[str, Any], str]] = [
    ({"acknowledged": 0}, "no record was acknowledged"),
    ({"duplicates": 2}, "2 records duplicated in the tables"),
    ({"missing": 3}, "3 acknowledged records missing from the tables"),
    ({"out_of_order": 1}, "1 record out of order in the tables"),
    ({"strays": 4}, "4 records in the tables that are not so in the log"),
    ({"spark_rows": 94}, "the tables hold 94 records, the log 95"),
    ({"tables_agree": False}, "the tables do not hold the same records"),
    ({"leader_epochs": 1}, "the leader was killed, but no other node led"),
]


@pytest.mark.parametrize(("change", "problem"), PROBLEMS)
def test_each_fault_is_a_problem(change: dict[str, Any], problem: str) -> None:
    assert CLEAN.problems == []
    assert replace(CLEAN, audit=replace(CLEAN.audit, **change)).problems == [problem]


def test_one_epoch_is_enough_when_nobody_was_killed() -> None:
    assert replace(CLEAN, failover_ms=None, audit=replace(CLEAN.audit, leader_epochs=1)).problems == []


def test_problems_found_without_spark_are_problems() -> None:
    comparison = ReplicaComparison(are_identical=False, problems=("a step back",), furthest=None)
    assert replace(CLEAN, comparison=comparison).problems == ["a step back"]


def test_the_json_has_the_counts_and_the_times() -> None:
    assert json.loads(json.dumps(CLEAN.as_json())) == {
        "committed_records": 95,
        "acknowledged": 90,
        "spark_rows": 95,
        "duplicates": 0,
        "missing": 0,
        "out_of_order": 0,
        "strays": 0,
        "tables_agree": True,
        "replicas_identical": True,
        "failover_ms": 800,
        "leader_epochs": 2,
        "records_per_second": 22.5,
        "commit_latency_ms": {"p50": 3.0, "p99": 9.0},
        "batch_latency_ms": {"p50": 900.0, "p99": 1500.0},
        "seconds": 4.0,
        "problems": [],
    }


def said(count: int, *, latency_ms: float = 1.0, base_offset: int = 0, wall_ms: int = 0) -> Acknowledged:
    return Acknowledged(
        node=NodeId(1),
        run=bytes(8),
        epoch=Epoch(1),
        first_sequence=0,
        count=count,
        base_offset=Offset(base_offset),
        wall_ms=wall_ms,
        latency_ms=latency_ms,
    )


def micro_batch(end_offset: int, ended_wall_ms: int) -> MicroBatch:
    return MicroBatch(batch_id=0, end_offset=end_offset, ended_wall_ms=ended_wall_ms, duration_ms=1)


def test_commit_latencies_count_records_and_not_acknowledgements() -> None:
    given = [said(1, latency_ms=9.0), said(98, latency_ms=2.0), said(1, latency_ms=30.0)]
    assert commit_latencies_ms(given) == {"p50": 2.0, "p99": 9.0}
    assert commit_latencies_ms([]) == {"p50": 0.0, "p99": 0.0}


def test_a_record_is_in_the_tables_when_the_micro_batch_of_its_last_offset_has_ended() -> None:
    batches = [micro_batch(10, 1_000), micro_batch(20, 2_000), micro_batch(30, 3_000)]
    given = [
        said(9, base_offset=11, wall_ms=1_100),  # up to 20: the second
        said(1, base_offset=20, wall_ms=1_900),  # up to 21: the third
    ]
    assert batch_latencies_ms(given, batches) == {"p50": 900.0, "p99": 1_100.0}


def test_what_waited_for_spark_or_never_came_does_not_count() -> None:
    batches = [micro_batch(10, 1_000), micro_batch(20, 2_000)]
    before, after = said(5, wall_ms=999), said(5, base_offset=20, wall_ms=2_500)
    early = said(3, base_offset=10, wall_ms=2_010)  # the clock of a node may be ahead
    assert batch_latencies_ms([before, after], batches) is None
    assert batch_latencies_ms([early], batches) == {"p50": 0.0, "p99": 0.0}
    assert batch_latencies_ms([before], []) is None
