"""Percentiles are of records, not of batches; a real quorum is measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from lab.bench.contender import Task
from lab.bench.measure import RunLimits, measure
from lab.bench.ours import Ours, latencies_ms
from pykraft.client.journal import Acknowledged, parse_event
from pykraft.local.child import Children


def said(latency_ms: float, count: int) -> Acknowledged:
    event = parse_event(
        f'{{"event":"ack","node":1,"run":"0011223344556677","epoch":1,"first_sequence":0,"count":{count},'
        f'"base_offset":1,"wall_ms":1,"latency_ms":{latency_ms}}}'
    )
    assert isinstance(event, Acknowledged)
    return event


def test_a_percentile_counts_records() -> None:
    assert latencies_ms([]) == {}
    assert latencies_ms([said(9.0, 10), said(1.0, 990)]) == {"p50": 1.0, "p75": 1.0, "p99": 1.0, "p999": 9.0}
    assert latencies_ms([said(3.0, 1)]) == dict.fromkeys(("p50", "p75", "p99", "p999"), 3.0)


@pytest.mark.processes
def test_a_quorum_of_ours_is_measured(tmp_path: Path) -> None:
    task = Task(nodes=3, record_size_bytes=100, records_per_s=1_000, linger_ms=5)
    limits = RunLimits(warm_up_s=0.5, window_s=1.5, size_bytes_max=10**9)
    with Children() as children:
        run = measure(Ours().quorum(children, tmp_path, task), task, limits)
    assert run.failure is None
    assert run.records_per_s > 500
    assert run.latency_ms["p50"] <= run.latency_ms["p99"]
    assert 10 < run.memory_mib < 300
