"""The leader's clock goes on from the log's last time."""

from __future__ import annotations

from pykraft.machine.leader_clock import LeaderClock


def test_it_advances_while_this_node_leads() -> None:
    clock = LeaderClock()
    assert (clock.is_running, clock.time_ms(5, 100.0)) == (False, 5)
    clock.start(1_000, 100.0)
    assert clock.is_running
    assert [clock.time_ms(1_000, 100.0 + s) for s in (0.0, 0.5, 2.0)] == [1_000, 1_500, 3_000]
    clock.stop()
    assert (clock.is_running, clock.time_ms(3_000, 109.0)) == (False, 3_000)


def test_it_is_never_behind_what_was_applied() -> None:
    clock = LeaderClock()
    clock.start(1_000, 100.0)
    assert clock.time_ms(9_000, 100.5) == 9_000
