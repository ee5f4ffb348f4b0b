"""A node that asks a stranger without a pause is found."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.facts import STRANGER_ID
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.foreign_rate import REQUESTS_MAX, SECOND_US, StrangersAreAskedSeldom
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import node, world


def test_so_many_requests_in_a_second_are_enough() -> None:
    where = world()
    made = StrangersAreAskedSeldom(where)
    for _ in range(2 * REQUESTS_MAX):
        made.before_send(node(1), Spoken(epoch=1, target_id=2))
    for _ in range(2):
        for _ in range(REQUESTS_MAX):
            made.before_send(node(1), Spoken(epoch=1, target_id=STRANGER_ID))
        where.clock.now_us += SECOND_US
    for _ in range(REQUESTS_MAX):
        made.before_send(node(1), Spoken(epoch=1, target_id=STRANGER_ID))
    with pytest.raises(ViolationError, match="node 1 has asked a stranger 121 times"):
        made.before_send(node(1), Spoken(epoch=1, target_id=STRANGER_ID))
