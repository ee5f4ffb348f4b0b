"""Virtual time goes forward only, and what is due at the same time happens in the order of planning."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pykraft.sim.clock import WALL_START_MS, Clock


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
