"""A leader that names itself too early is found."""

from __future__ import annotations

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.elections.named_leader import LeaderIsDurableFirst
from pykraft.sim.machine.spoken import Spoken
from tests.sim.invariants.fakes import node, world


def test_a_leader_names_itself_when_its_disk_knows() -> None:
    made = LeaderIsDurableFirst(world(epoch=3, leader_id=1))
    made.before_send(node(1), Spoken(epoch=3, leader_id=1))
    made.before_send(node(2), Spoken(epoch=3, leader_id=1))
    made.before_send(node(2), Spoken(epoch=3))
    LeaderIsDurableFirst(world(epoch=4, leader_id=None)).before_send(node(1), Spoken(epoch=3, leader_id=1))


def test_one_that_is_too_early_is_found() -> None:
    for disk in ({"epoch": 3, "leader_id": None}, {"epoch": 2, "leader_id": 1}):
        with pytest.raises(ViolationError, match="node 1 says that it leads epoch 3"):
            LeaderIsDurableFirst(world(**disk)).before_send(node(1), Spoken(epoch=3, leader_id=1))
