"""Forged frames reach the voters, each kind of them, and the stranger's own port tells of a far epoch."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pykraft.core.messages import (
    ApiVersionsRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochResponse,
    FetchResponse,
    VoteResponse,
)
from pykraft.sim.facts.facts import FORGER_ID
from pykraft.sim.faults.forged import FAR, ForgedFaults
from pykraft.sim.run.world import World
from pykraft.types import NodeId
from tests.sim.worlds import calm_world, dynamic_world, harm_to, has_noted, led, led_world, run_for, run_until


def made(world: World, seed: int = 1) -> ForgedFaults:
    faults = ForgedFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


@pytest.mark.parametrize("seed", range(6))
def test_frames_are_forged_for_a_while_and_the_quorum_works_afterwards(seed: int) -> None:
    world, _ = led(dynamic_world())
    world.users.begin()
    run_for(world, 100_000)
    faults = made(world, seed)
    run_until(world, faults.kinds["forged frames"])
    assert world.facts.claims.is_forging
    assert not faults.kinds["forged frames"](), "one at a time"
    assert has_noted(world, "a stranger sends each voter")
    faults._until_us = world.clock.now_us + 200_000
    run_until(world, lambda: not world.facts.claims.is_forging)
    faults.stop()
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_without_a_leader_nobody_forges_anything() -> None:
    assert not made(calm_world()).kinds["forged frames"]()


def test_every_answer_of_the_forger_names_the_last_epoch_but_one() -> None:
    world, leader = led_world()
    faults = made(world)
    voter = world.facts.members.committed.voters[0]
    node = world.nodes[2]
    answers: list[Any] = []
    for name in ("Vote", "BeginQuorumEpoch", "EndQuorumEpoch", "Fetch"):
        found = faults._answer(faults._forge[name](node, leader, voter))
        assert found is not None
        answers.append(found[0])
    assert [type(each) for each in answers] == [
        VoteResponse,
        BeginQuorumEpochResponse,
        EndQuorumEpochResponse,
        FetchResponse,
    ]
    assert {each.epoch for each in answers} == {FAR}
    assert faults._answer(ApiVersionsRequest(node_id=NodeId(1))) is None


def test_a_moved_voter_is_at_the_forgers_port() -> None:
    world, leader = led_world()
    faults = made(world)
    request = faults._forge["UpdateRaftVoter"](world.nodes[1], leader, world.facts.members.committed.voters[1])
    assert f":{FORGER_ID}" in str(request) or str(FORGER_ID) in str(request)
    assert world.facts.claims.is_moving_voters
