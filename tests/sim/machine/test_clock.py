"""Virtual time only increases; of two events due at once the first planned runs first; timers follow clocks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pykraft.sim.machine.clock import WALL_START_MS, Alarm, Clock, NodeClock


@given(st.lists(st.integers(0, 20), max_size=30))
def test_things_happen_in_order_of_time_and_then_of_planning(delays_us: list[int]) -> None:
    clock, seen = Clock(), []
    for number, delay_us in enumerate(delays_us):
        clock.after(delay_us, lambda number=number: seen.append((clock.now_us, number)))  # type: ignore[misc]
    while clock.advance():
        pass
    assert seen == sorted((delay_us, number) for number, delay_us in enumerate(delays_us))


def test_what_is_planned_while_something_happens_comes_after_what_was_planned_before() -> None:
    clock, seen = Clock(), []

    def first() -> None:
        seen.append("first")
        clock.after(0, lambda: seen.append("planned by the first"))

    clock.after(5, first)
    clock.after(5, lambda: seen.append("second"))
    while clock.advance():
        pass
    assert seen == ["first", "second", "planned by the first"]
    assert clock.now_us == 5


def test_hosts_see_whole_milliseconds_on_both_clocks() -> None:
    clock = Clock()
    clock.after(2_999, lambda: None)
    assert clock.advance()
    assert (clock.instant.mono_ms, clock.instant.wall_ms) == (2, WALL_START_MS + 2)
    assert not clock.advance()


def test_a_clock_that_is_fast_reaches_a_time_early_and_one_that_is_slow_late() -> None:
    for rate_ppm, until_us in ((1_000_000, 10_000), (1_250_000, 8_000), (800_000, 12_500)):
        clock = Clock()
        mine = NodeClock(clock)
        mine.go_at(rate_ppm)
        assert mine.until_us(10) == until_us
        clock.after(until_us, lambda: None)
        clock.advance()
        assert mine.instant.mono_ms == 10
        assert mine.until_us(10) == mine.until_us(9) == 0
        assert mine.instant.wall_ms == clock.instant.wall_ms


@given(st.lists(st.tuples(st.integers(0, 5_000), st.integers(100_000, 3_000_000)), max_size=20))
def test_a_monotonic_clock_never_goes_back_whatever_its_rate(steps: list[tuple[int, int]]) -> None:
    clock = Clock()
    mine = NodeClock(clock)
    shown = [mine.instant.mono_ms]
    for delay_us, rate_ppm in steps:
        clock.after(delay_us, lambda: None)
        clock.advance()
        mine.go_at(rate_ppm)
        shown.append(mine.instant.mono_ms)
    assert shown == sorted(shown)


def test_a_wall_clock_jumps_and_is_set_right() -> None:
    mine = NodeClock(Clock())
    mine.jump(-5_000)
    mine.jump(1_000)
    assert mine.instant.wall_ms == WALL_START_MS - 4_000
    mine.set_right()
    assert mine.instant.wall_ms == WALL_START_MS


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
