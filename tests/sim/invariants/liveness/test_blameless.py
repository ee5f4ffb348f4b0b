"""A connection closed because of its messages is found, unless a disk was lost or lied."""

from __future__ import annotations

from typing import Any

import pytest

from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.liveness.blameless import NobodyIsBlamed
from tests.sim.invariants.fakes import node, world

PEER = "closing the connection to peer 2 at node-2:2: it rejected the request as invalid"
LEADER = "node 2 is given up as the leader of epoch 3: its high watermark went back from 4 to 2"
CALLER = "closing connection 7 on CONTROLLER: it sent a response that answers no request"


def of(*nodes: Any) -> NobodyIsBlamed:
    made = world()
    made.nodes = {each.node_id: each for each in nodes}
    return NobodyIsBlamed(made)


@pytest.mark.parametrize("text", [PEER, CALLER, LEADER])
def test_blame_is_noticed(text: str) -> None:
    with pytest.raises(ViolationError, match=f"node 1 says: {text}"):
        of(node(1), node(2)).reported(node(1), text)


def test_other_words_are_none() -> None:
    of(node(1)).reported(node(1), "closing connection -3 on CONTROLLER: it asks for API 80")
    of(node(1)).reported(node(1), "out of quarantine: the log is whole again up to 10")


def test_who_lost_its_disk_may_wonder_and_nobody_else() -> None:
    made = of(node(1), node(2), node(3))
    made.wiped(node(1))
    made.lost(node(2))
    made.reported(node(1), PEER)
    made.reported(node(2), PEER)
    with pytest.raises(ViolationError):
        made.reported(node(3), PEER)


def test_who_finds_its_disk_empty_knows_it_and_blames_nobody() -> None:
    made = of(node(1), node(2))
    made.emptied(node(1))
    with pytest.raises(ViolationError):
        made.reported(node(1), PEER)


def test_while_a_disk_lies_anything_may_be_said() -> None:
    of(node(1), node(2, is_rotten=True)).reported(node(1), PEER)
