"""A timer rings once, at the time that was asked for last, by a clock whose rate may change meanwhile."""

from __future__ import annotations

import pytest

from pykraft.sim.alarm import Alarm
from pykraft.sim.clock import Clock, NodeClock


class Machine:
    """A clock, its alarm, and the world's times at which it rang."""

    def __init__(self) -> None:
        self.world = Clock()
        self.clock = NodeClock(self.world)
        self.rang_us: list[int] = []
        self.alarm = Alarm(self.clock, self.world.after, lambda: self.rang_us.append(self.world.now_us))

    def run(self) -> list[int]:
        """All that was planned happens."""
        while self.world.advance():
            pass
        return self.rang_us


@pytest.mark.parametrize(
    ("asked_ms", "rings_us"),
    [([10], [10_000]), ([10, 5], [5_000]), ([5, 10], [10_000]), ([5, None], []), ([5, None, 7], [7_000])],
)
def test_it_rings_once_at_the_time_that_was_asked_for_last(asked_ms: list[int | None], rings_us: list[int]) -> None:
    machine = Machine()
    for mono_ms in asked_ms:
        machine.alarm.at(mono_ms)
    assert machine.run() == rings_us


@pytest.mark.parametrize(
    ("before_ppm", "after_ppm", "rings_us"), [(800_000, 1_000_000, 12_000), (10**6, 8 * 10**5, 10_500)]
)
def test_a_clock_that_goes_at_another_rate_takes_its_alarm_along(
    before_ppm: int, after_ppm: int, rings_us: int
) -> None:
    machine = Machine()
    machine.clock.go_at(before_ppm)
    machine.alarm.at(10)
    machine.world.after({800_000: 10_000, 10**6: 8_000}[before_ppm], lambda: machine.clock.go_at(after_ppm))
    assert machine.run() == [rings_us]


def test_a_clock_without_a_planned_alarm_changes_nothing() -> None:
    machine = Machine()
    machine.clock.go_at(500_000)
    assert machine.run() == []
