"""A node that logs the same line again and again is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.repeats import TIMES_MAX, NobodyRepeatsItself
from pykraft.types import ReportKind
from tests.sim.invariants.fakes import node, report, world


def test_the_same_now_and_then_is_accepted_and_much_that_differs() -> None:
    where = world()
    made = NobodyRepeatsItself(where)
    for number in range(3 * TIMES_MAX):
        where.clock.now_us = number * 100_000
        made.reported(node(), report(text="again"))
        made.reported(node(), report(text=f"line {number}"))


def test_a_new_process_begins_anew_and_connections_have_a_pace_of_their_own() -> None:
    made = NobodyRepeatsItself(world())
    for _ in range(2):
        made.started(node())
        for _ in range(TIMES_MAX):
            made.reported(node(), report(text="again"))
            made.reported(node(), report(ReportKind.PEER_CLOSED, 3))
            made.reported(node(), report(ReportKind.PEER_CLOSED, 3))


def test_the_same_many_times_within_a_second_is_found() -> None:
    made = NobodyRepeatsItself(world())
    for _ in range(TIMES_MAX):
        made.reported(node(), report(text="again"))
    with pytest.raises(ViolationError, match=f"node 1 says {TIMES_MAX + 1} times within a second: again"):
        made.reported(node(), report(text="again"))
