"""A false leader gives wrong answers, and only to followers that take it for their leader."""

from __future__ import annotations

from random import Random

from pykraft.core.messages import FetchRequest
from pykraft.sim.faults.stranger import ANSWERS, FalseLeader, StrangerAnswer
from pykraft.sim.run.world import World
from pykraft.types import Epoch, NodeId, Offset
from tests.sim.worlds import led_world


def made(world: World) -> FalseLeader:
    leader = FalseLeader(world.facts)
    assert set(leader.claims(Epoch(99), NodeId(1), Random(1))) <= set(ANSWERS)
    return leader


def answers_to(world: World, manner: str, *, offset: int = 3) -> StrangerAnswer | None:
    """What the node that leads would be told if it followed the stranger in its epoch."""
    faults, node = made(world), world.nodes[1]
    assert node.host is not None
    assert node.host.status.leader_id is not None
    epoch = Epoch(node.host.status.epoch)
    faults._leaders[epoch] = (NodeId(node.host.status.leader_id), (manner,))
    asked = FetchRequest(
        replica=node.key,
        epoch=epoch,
        fetch_offset=Offset(offset),
        last_fetched_epoch=Epoch(1),
        wait_ms_max=0,
        size_bytes_max=1,
        high_watermark=None,
    )
    return faults.answer(asked)


def test_every_manner_has_an_answer_that_no_leader_gives() -> None:
    world, _ = led_world()
    found = {manner: answers_to(world, manner) for manner in ANSWERS}
    assert found["no answer"] is None
    assert {manner for manner, answer in found.items() if answer is not None and answer[1]} == {
        "records of another leader",
        "older records",
        "later records",
        "records behind a hole",
        "broken records",
    }
    assert len(world.facts.claims.batches) == 3  # a batch of a later epoch has the same CRC
    at_the_beginning = answers_to(world, "older records", offset=0)
    assert at_the_beginning is not None
    assert at_the_beginning[1] == b""


def test_nobody_answers_who_is_not_taken_for_the_leader() -> None:
    world, _ = led_world()
    faults = made(world)
    for replica in (None, world.nodes[1].key):
        asked = FetchRequest(
            replica=replica,
            epoch=Epoch(77),
            fetch_offset=Offset(0),
            last_fetched_epoch=Epoch(0),
            wait_ms_max=0,
            size_bytes_max=1,
            high_watermark=None,
        )
        assert faults.answer(asked) is None
    assert faults._other_id(NodeId(1)) in {2, 3}
