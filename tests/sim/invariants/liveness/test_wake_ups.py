"""A timer that rings again and again is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.wake_ups import WAKE_UPS_MAX, WINDOW_MS, NobodyWakesForNothing
from tests.sim.invariants.fakes import node, world


def test_a_timer_may_ring_as_often_as_there_are_deadlines() -> None:
    made = NobodyWakesForNothing(world())
    for at in range(5 * WAKE_UPS_MAX):
        made.woken(node(ms=at * WINDOW_MS // WAKE_UPS_MAX + at))


def test_one_that_does_not_stop_is_found_but_a_new_process_begins_anew() -> None:
    made = NobodyWakesForNothing(world())
    for _ in range(WAKE_UPS_MAX):
        made.woken(node(ms=7))
    made.started(node(ms=7))
    for _ in range(WAKE_UPS_MAX):
        made.woken(node(ms=7))
    with pytest.raises(ViolationError, match="the timer of node 1 rang 601 times within 1000 ms"):
        made.woken(node(ms=7))
