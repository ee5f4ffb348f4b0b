"""A twin runs for a while beside a static voter, one at a time, and then it is gone.

A twin fetches beside the real voter, counts as nobody, and ends before the protocol could take it for the voter.
"""

from random import Random
from typing import Any

import pytest

from pykraft.errors import StorageError
from pykraft.sim.faults.twins import PORTS_FROM, TwinFaults, VoterTwin
from pykraft.sim.machine.disk import Interrupted
from pykraft.sim.machine.node import Process
from pykraft.sim.machine.spoken import LogEnd, Spoken
from pykraft.sim.run.world import World
from tests.sim.worlds import calm_world, dynamic_world, harm_to, has_noted, led, led_world, run_for, run_until


def made(world: World, seed: int = 1) -> TwinFaults:
    faults = TwinFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def test_a_twin_comes_and_goes_while_the_followers_stand_still() -> None:
    world, leader = led_world()
    world.users.begin()
    faults = made(world)
    run_until(world, faults.kinds["twin"])
    assert has_noted(world, "has a twin from now on")
    assert not faults.kinds["twin"](), "one at a time"
    followers = [node for node in world.facts.voters() if node.node_id != leader.node_id]
    faults._pause_followers(leader.node_id, Random(1))
    faults._pause_followers(leader.node_id, Random(2))  # who stands still already is left alone
    assert all(node.process is not None and node.process.is_paused for node in followers)
    assert has_noted(world, "stands still for")
    run_until(world, lambda: faults._twin is None)
    faults.stop()
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_where_nobody_leads_or_voters_have_directory_ids_there_is_no_twin() -> None:
    assert not made(calm_world()).kinds["twin"]()
    world, _ = led(dynamic_world())
    assert not made(world).kinds["twin"]()


def test_where_pre_votes_are_unknown_there_is_no_twin() -> None:
    world, _ = led_world()
    world.facts.members.has_pre_votes = False
    assert not made(world).kinds["twin"]()


def with_twin(*, is_formatted: bool = True) -> tuple[World, Process, VoterTwin]:
    """A twin of a follower."""
    world, leader = led_world()
    world.users.begin()
    real = next(node for node in world.facts.voters() if node.node_id != leader.node_id)
    return world, leader, VoterTwin(world.facts, real, Random(1), is_formatted=is_formatted)


def spoken(leader: Process, **fields: Any) -> Spoken:
    return Spoken(epoch=int(leader.host.status.epoch), target_id=leader.node_id, **fields)


@pytest.mark.parametrize("is_formatted", [True, False])
def test_a_twin_is_fed_and_the_leader_says_so(*, is_formatted: bool) -> None:
    world, leader, twin = with_twin(is_formatted=is_formatted)
    run_until(world, lambda: bool(world.facts.claims.fed_twins))
    assert world.facts.claims.fed_twins == {(leader.node_id, leader.host.status.epoch, twin.node.node_id)}
    assert any("TWO PROCESSES" in line for line in world.trace.lines)
    assert twin.node.process is not None
    assert twin.node.process.node_id == PORTS_FROM + twin.node.node_id
    assert twin.node.node_id in {node.node_id for node in world.facts.voters()}
    twin.end()
    twin.end()
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal)


def test_a_twin_ends_before_it_would_be_the_first_directory_of_an_epoch() -> None:
    world, leader, twin = with_twin()
    assert leader.host.raft is not None
    state: Any = leader.host.raft.state
    state.progress.voters[twin.node.node_id].directory_id = None
    twin.before_send(twin.node, spoken(leader, fetched=LogEnd(epoch=0, offset=0)))
    run_for(world, 1_000)
    assert twin.node.process is None
    assert not world.facts.claims.fed_twins


def test_a_twin_ends_before_it_asks_for_votes() -> None:
    world, leader, twin = with_twin()
    twin.before_send(twin.node, spoken(leader, candidate_id=int(twin.node.node_id)))
    run_for(world, 1_000)
    assert twin.node.process is None


def test_a_twin_goes_on_where_nothing_can_be_mistaken() -> None:
    world, leader, twin = with_twin()
    twin.before_send(twin.node, Spoken(epoch=1_000, target_id=leader.node_id, fetched=LogEnd(epoch=0, offset=0)))
    twin.before_send(twin.node, Spoken(epoch=1, target_id=PORTS_FROM, fetched=LogEnd(epoch=0, offset=0)))
    twin.before_send(twin.node, Spoken(epoch=1))
    run_for(world, 1_000)
    assert twin.node.process is not None


def test_what_happens_to_a_twin_concerns_nobody() -> None:
    world, _, twin = with_twin()
    before = list(world.trace.lines)
    twin.interrupted(twin.node, Interrupted(loses_power=True))
    twin.disk_failed(twin.node, StorageError(twin.node.config.log_dir, "no room"))
    twin.stopped(twin.node, None)
    assert list(world.trace.lines) == before
