"""Somebody with another's id and without its certificate counts for nothing, and a withdrawn rule counts at once."""

from dataclasses import replace
from random import Random

import pytest

from pykraft.core import messages
from pykraft.sim.faults.impostor import GUEST_ID, ImpostorFaults, _grant
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import SecuritySettings
from pykraft.sim.scenario.settings import ACLS
from pykraft.types import Epoch, NodeId, Offset, OffsetAndEpoch, ReplicaKey
from tests.sim.worlds import SEED_OF_THREE, THREE, harm_to, led, led_world, run_for, run_until


def protected_world() -> World:
    """Three nodes with certificates, one of which leads."""
    world, _ = led(World(SEED_OF_THREE, scenario=replace(THREE, security=SecuritySettings(protected_probability=1))))
    world.users.begin()
    return world


def made(world: World, seed: int = 1) -> ImpostorFaults:
    faults = ImpostorFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


def refusals(world: World) -> int:
    guards = [host._components.guard for host in world.facts.hosts()]
    return sum(guard.refusals for guard in guards if guard is not None)


def test_an_impostor_acknowledges_and_is_refused() -> None:
    world = protected_world()
    faults = made(world)
    for _ in range(4):  # the leader, too, may be the one that it poses as
        assert faults.kinds["impostor"]()
        assert not faults.kinds["impostor"](), "one at a time"
        run_until(world, lambda: faults._impostor is None)
    assert refusals(world) > 3
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_an_impostor_takes_the_address_of_a_voter_that_is_down_and_gives_it_back() -> None:
    world = protected_world()
    faults = made(world)
    assert faults.kinds["impostor"]()
    nodes = world.facts.voters()
    world.facts.absent.update(int(node.node_id) for node in nodes)
    for node in nodes:
        node.kill()
    run_until(world, lambda: faults._at_address is not None)
    assert faults._at_address is not None
    assert faults._at_address.port == faults._at_address.node_id
    world.facts.absent.clear()
    for node in nodes:
        world.restart(node)
    run_until(world, lambda: faults._at_address is None)
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_an_impostor_grants_every_vote_and_answers_nothing_else() -> None:
    key = ReplicaKey(NodeId(1))
    last = OffsetAndEpoch(Offset(0), Epoch(0))
    asked = messages.VoteRequest(epoch=Epoch(7), candidate=key, voter=None, last=last, pre_vote=False)
    answer = _grant(asked)
    assert answer is not None
    assert isinstance(answer[0], messages.VoteResponse)
    assert (answer[0].vote_granted, answer[0].epoch) == (True, 7)
    begin = messages.EndQuorumEpochRequest(epoch=Epoch(7), leader_id=NodeId(1), successors=())
    assert _grant(begin) is None


def test_where_nobody_proves_anything_there_is_no_impostor() -> None:
    world, _ = led_world()
    faults = made(world)
    assert not faults.kinds["impostor"]()
    assert not faults.kinds["withdrawn rule"]()


def test_a_guest_is_refused_as_soon_as_its_rule_is_withdrawn() -> None:
    world = protected_world()
    faults = made(world)
    assert faults.kinds["withdrawn rule"]()
    assert not faults.kinds["withdrawn rule"](), "one at a time"
    guest = faults._guest
    assert guest is not None
    assert guest.node_id == GUEST_ID
    before = refusals(world)
    run_until(world, lambda: refusals(world) > before)
    run_until(world, lambda: faults._guest is None)
    assert guest._node.authorizer is not None
    assert (
        len(guest._node.authorizer.acls) == 1 + ACLS.count("--topic") + ACLS.count("--group") + ACLS.count("--op") - 1
    )
    with pytest.raises(AssertionError, match="somebody dials a guest"):
        guest.accepted(guest._connection)


def test_an_answer_that_a_withdrawn_rule_forbids_is_a_violation() -> None:
    world = protected_world()
    faults = made(world)
    faults.kinds["withdrawn rule"]()
    guest = faults._guest
    assert guest is not None
    guest._is_withdrawn = True  # what the node does not know
    with pytest.raises(ViolationError, match="RulesCountAtOnce"):
        run_for(world, 1_000_000)
    faults.stop()
    assert faults._guest is None
