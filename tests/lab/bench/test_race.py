"""Contenders run in turn; one that breaks gets a rate that follows what it sustained.

A window begins after the warm-up and ends with its time or bytes; it counts what was committed in it.
"""

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.bench.measure import Contender, Run, RunLimits, Task, measure, require_proc, usage_of
from lab.bench.options import BenchOptions
from lab.bench.race import (
    DOUBLINGS_MAX,
    HALVINGS_MAX,
    REFINEMENTS,
    Race,
    highest_sustained,
    run_in_folder,
)
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from tests.lab.bench.fakes import FakeContender, FakeQuorum, VirtualTime
from tests.lab.lines import Lines

Measure = Callable[[Contender, Path, Task, RunLimits], Run]


def measure_fake(contender: Contender, folder: Path, task: Task, limits: RunLimits) -> Run:
    assert isinstance(contender, FakeContender)
    with Children() as children:
        return measure(contender.quorum(children, folder, task), task, limits, contender.time.clock)


def options(folder: Path, **changes: object) -> BenchOptions:
    chosen: dict[str, object] = {"folders": (folder,), "record_sizes_bytes": (100,), "runs": 2, "seconds": 4.0}
    return BenchOptions(**(chosen | changes))  # type: ignore[arg-type]


def test_contenders_run_in_turn_for_each_folder_and_size(tmp_path: Path) -> None:
    told = Lines()
    contenders = [FakeContender(name="a"), FakeContender(name="b")]
    asked = options(tmp_path, record_sizes_bytes=(100, 256), records_per_s=500)
    laps = Race(asked, contenders, told, measure_fake).laps()
    assert [(lap.record_size_bytes, lap.turn, lap.contender) for lap in laps] == [
        (size, turn, name) for size in (100, 256) for turn in (1, 2) for name in ("a", "b")
    ]
    assert all(lap.run.records_per_s == pytest.approx(500) for lap in laps)
    assert told.stages[0] == f"a, 100 bytes, {tmp_path}, run 1 of 2: 500 records/s: 500 records/s committed"


def test_a_search_starts_where_it_is_told_and_its_rate_serves_later_races(tmp_path: Path) -> None:
    brittle = FakeContender(name="brittle", most=290_000, breaks_when_overloaded=True)
    rates: dict[tuple[str, Path, int], int] = {}
    for _ in range(2):
        Race(
            options(tmp_path, runs=1), [brittle], Lines(), measure_fake, rates=rates, first_rates={100: 270_000}
        ).laps()
    searched = [270_000, 540_000, 405_000, 337_500]
    assert [task.records_per_s for task in brittle.tasks] == [*searched, 270_000, 297_000, 252_450]


def test_a_rate_that_is_sustained_no_more_falls_until_it_is(tmp_path: Path) -> None:
    brittle = FakeContender(name="brittle", most=290_000, breaks_when_overloaded=True)

    def slows_down(contender: Contender, folder: Path, task: Task, limits: RunLimits) -> Run:
        brittle.most = 290_000 if len(brittle.tasks) < 5 else 150_000
        return measure_fake(contender, folder, task, limits)

    laps = Race(options(tmp_path, runs=1), [brittle], Lines(), slows_down).laps()
    assert laps[0].run.failure is None
    assert 120_000 < laps[0].run.records_per_s <= 150_000


def test_a_run_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contender = FakeContender(name="a")
    monkeypatch.setattr("lab.bench.race.measure", partial(measure, clock=contender.time.clock))
    task = Task(nodes=3, record_size_bytes=100, records_per_s=500, linger_ms=25)
    run = run_in_folder(contender, tmp_path, task, RunLimits(warm_up_s=1, window_s=1, size_bytes_max=10**9))
    assert run.records_per_s == pytest.approx(500)
    assert list(tmp_path.iterdir()) == []


class Peer:
    def __init__(self, most: int) -> None:
        self.most = most
        self.tried: list[int] = []

    def sustains(self, rate: int) -> bool:
        self.tried.append(rate)
        return rate <= self.most


@pytest.mark.parametrize("most", [3, 90, 100, 101, 149, 175, 6_399])
def test_the_rate_found_is_close_below_what_is_possible(most: int) -> None:
    peer = Peer(most)
    found = highest_sustained(peer.sustains, 100)
    assert found is not None
    assert most * 0.75 <= found <= most
    assert len(peer.tried) <= max(DOUBLINGS_MAX, 1 + HALVINGS_MAX) + REFINEMENTS


def test_without_a_limit_the_search_ends_all_the_same() -> None:
    assert highest_sustained(lambda rate: True, 100) == 100 * 2 ** (DOUBLINGS_MAX - 1)


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
