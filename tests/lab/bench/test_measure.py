"""A window begins after the warm-up and ends with its time or bytes; it counts what was committed in it."""

import os
from pathlib import Path

import pytest

from lab.bench.measure import Run, RunLimits, Task, measure, require_proc, usage_of
from pykraft.errors import LocalQuorumError
from tests.lab.bench.fakes import FakeQuorum, VirtualTime

LIMITS = RunLimits(warm_up_s=2.0, window_s=4.0, size_bytes_max=10**9)
TASK = Task(nodes=3, record_size_bytes=100, records_per_s=1_000, linger_ms=25)


def test_the_rate_is_what_was_committed_in_the_window() -> None:
    time = VirtualTime()
    quorum = FakeQuorum(time=time, task=TASK)
    run = measure(quorum, TASK, LIMITS, time.clock)
    assert quorum.window_s == pytest.approx(102.0)
    assert quorum.is_closed
    assert run.failure is None
    assert run.records_per_s == pytest.approx(1_000)
    assert run.window_s == pytest.approx(4.0)
    assert run.latency_ms == {"p50": 1.0}
    assert run.leader_cpu == pytest.approx(0.004)
    assert run.follower_cpu == pytest.approx(0.003)
    assert run.cpu_us_per_record == pytest.approx(10)
    assert run.memory_mib == 53
    assert run.batch_size_bytes == 4_096
    assert run.sustains(1_000)
    assert run.sustains(1_030)
    assert not run.sustains(1_031)


def test_a_fast_quorum_does_not_fill_the_folder() -> None:
    time = VirtualTime()
    quorum = FakeQuorum(time=time, task=TASK, most=1_000)
    run = measure(quorum, TASK, RunLimits(warm_up_s=100, window_s=100, size_bytes_max=3_000_000), time.clock)
    assert run.failure is None
    assert quorum.window_s == pytest.approx(104.0)  # 40 % of ten thousand records
    assert quorum.committed == 10_000


@pytest.mark.parametrize(
    ("quorum", "reason"),
    [
        ({"breaks": True, "most": 999}, "its load thread died"),
        ({"has_no_leader": True}, "waited 60 s for a leader's high watermark"),
        ({"leader_changes_at_s": 3.0}, "the leader changed: node 2 in epoch 1, then node 3 in epoch 2"),
        ({"most": 0}, "nothing was committed within 4.0 s"),
    ],
)
def test_what_goes_wrong_is_in_the_result(quorum: dict[str, object], reason: str) -> None:
    time = VirtualTime()
    run = measure(FakeQuorum(time=time, task=TASK, **quorum), TASK, LIMITS, time.clock)  # type: ignore[arg-type]
    assert run == Run(latency_ms={}, failure=reason)
    assert not run.sustains(0)


def put_process(proc: Path, *, status: str = "Name:\ta\nVmHWM:\t  51200 kB\n") -> None:
    (proc / "7").mkdir()
    (proc / "7" / "stat").write_text("7 (a name) with) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0\n")
    (proc / "7" / "status").write_text(status)


def test_processor_time_and_peak_memory(tmp_path: Path) -> None:
    put_process(tmp_path)
    usage = usage_of(7, "node 1", tmp_path)
    assert usage.cpu_s == pytest.approx(200 / os.sysconf("SC_CLK_TCK"))
    assert usage.memory_mib == 50


def test_a_process_that_has_ended_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalQuorumError, match="node 1 has ended"):
        usage_of(7, "node 1", tmp_path)
    put_process(tmp_path, status="Name:\ta\nState:\tZ (zombie)\n")
    with pytest.raises(LocalQuorumError, match="node 1 has ended"):
        usage_of(7, "node 1", tmp_path)


def test_this_process_has_used_something() -> None:
    require_proc()
    usage = usage_of(os.getpid(), "this one")
    assert usage.cpu_s > 0
    assert usage.memory_mib > 1
