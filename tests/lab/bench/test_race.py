"""Contenders run in turn; one that breaks gets a rate that follows what it sustained."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from lab.bench import race
from lab.bench.measure import Contender, Run, RunLimits, Task, measure
from lab.bench.options import BenchOptions
from pykraft.local.child import Children
from tests.lab.bench.fakes import FakeContender
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
    laps = race.Race(asked, contenders, told, measure_fake).laps()
    assert [(lap.record_size_bytes, lap.turn, lap.contender) for lap in laps] == [
        (size, turn, name) for size in (100, 256) for turn in (1, 2) for name in ("a", "b")
    ]
    assert all(lap.run.records_per_s == pytest.approx(500) for lap in laps)
    assert told.stages[0] == f"a, 100 bytes, {tmp_path}, run 1 of 2: 500 records/s: 500 records/s committed"


def test_a_search_starts_where_it_is_told_and_its_rate_serves_later_races(tmp_path: Path) -> None:
    brittle = FakeContender(name="brittle", most=290_000, breaks_when_overloaded=True)
    rates: dict[tuple[str, Path, int], int] = {}
    for _ in range(2):
        race.Race(
            options(tmp_path, runs=1), [brittle], Lines(), measure_fake, rates=rates, first_rates={100: 270_000}
        ).laps()
    searched = [270_000, 540_000, 405_000, 337_500]
    assert [task.records_per_s for task in brittle.tasks] == [*searched, 270_000, 297_000, 252_450]


def test_a_rate_that_is_sustained_no_more_falls_until_it_is(tmp_path: Path) -> None:
    brittle = FakeContender(name="brittle", most=290_000, breaks_when_overloaded=True)

    def slows_down(contender: Contender, folder: Path, task: Task, limits: RunLimits) -> Run:
        brittle.most = 290_000 if len(brittle.tasks) < 5 else 150_000
        return measure_fake(contender, folder, task, limits)

    laps = race.Race(options(tmp_path, runs=1), [brittle], Lines(), slows_down).laps()
    assert laps[0].run.failure is None
    assert 120_000 < laps[0].run.records_per_s <= 150_000


def test_a_run_leaves_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    contender = FakeContender(name="a")
    monkeypatch.setattr("lab.bench.race.measure", partial(measure, clock=contender.time.clock))
    task = Task(nodes=3, record_size_bytes=100, records_per_s=500, linger_ms=25)
    run = race.run_in_folder(contender, tmp_path, task, RunLimits(warm_up_s=1, window_s=1, size_bytes_max=10**9))
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
    found = race.highest_sustained(peer.sustains, 100)
    assert found is not None
    assert most * 0.75 <= found <= most
    assert len(peer.tried) <= max(race.DOUBLINGS_MAX, 1 + race.HALVINGS_MAX) + race.REFINEMENTS


def test_without_a_limit_the_search_ends_all_the_same() -> None:
    assert race.highest_sustained(lambda rate: True, 100) == 100 * 2 ** (race.DOUBLINGS_MAX - 1)
