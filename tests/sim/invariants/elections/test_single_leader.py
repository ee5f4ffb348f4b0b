"""Two leaders of one epoch are found, in memory or on disk, whichever node names them."""

from __future__ import annotations

import pytest

from pykraft.sim.facts.view import View
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.single_leader import SingleLeader
from tests.sim.invariants.fakes import BEFORE, node, view, world


def test_one_leader_for_each_epoch_is_accepted() -> None:
    made = SingleLeader(world())
    for epoch, leader_id in ((1, 2), (1, 2), (2, None), (2, 1), (1, 2)):
        made.changed(node(), BEFORE, view(epoch=epoch, leader_id=leader_id))
    made.changed(node(4), BEFORE, BEFORE)


@pytest.mark.parametrize("now", [view(epoch=2, leader_id=3), view("down", 0, disk_epoch=2, disk_leader_id=3)])
def test_a_second_leader_of_an_epoch_is_found_also_when_the_first_is_long_gone(now: View) -> None:
    made = SingleLeader(world())
    for epoch in (1, 2, 3):
        made.changed(node(), BEFORE, view(epoch=epoch, leader_id=1))
    with pytest.raises(ViolationError, match="epoch 2 has leaders 1 and 3"):
        made.changed(node(2), BEFORE, now)


def test_a_leader_that_only_a_flipped_bit_named_is_none() -> None:
    made = SingleLeader(world())
    made.facts.claims.misnamed.add((2, 3))
    for leader_id in (3, 1, 3):
        made.changed(node(), BEFORE, view(epoch=2, leader_id=leader_id))
