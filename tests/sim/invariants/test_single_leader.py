"""Two leaders of an epoch are found, whoever names them and whenever."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.single_leader import SingleLeader
from tests.sim.invariants.fakes import node, world


def test_one_leader_for_each_epoch_is_accepted() -> None:
    invariant = SingleLeader()
    for node_id, epoch, leader_id in ((1, 1, 2), (3, 1, 2), (3, 2, None), (3, 2, 1), (1, 1, 2)):
        invariant.after_event(world(), node(node_id, epoch=epoch, leader_id=leader_id))
    invariant.after_event(world(), node(4))


def test_a_second_leader_of_an_epoch_is_found_also_when_the_first_is_long_gone() -> None:
    invariant = SingleLeader()
    for epoch in (1, 2, 3):
        invariant.after_event(world(), node(1, epoch=epoch, leader_id=1))
    with pytest.raises(ViolationError, match="epoch 2 has leaders 1 and 3"):
        invariant.after_event(world(), node(2, epoch=2, leader_id=3))
