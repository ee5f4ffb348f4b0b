"""Facts follow their world and are frozen.

Every epoch that a stranger named is one of its claims.
"""

from dataclasses import FrozenInstanceError, replace

import pytest

from pykraft.sim.facts.facts import Claims
from pykraft.sim.machine.ledger import Ledger
from pykraft.sim.scenario.settings import LISTENER
from pykraft.types import Endpoint, Listeners
from tests.sim.worlds import calm_world, led_world, run_until


def test_they_follow_the_world() -> None:
    facts = calm_world().facts
    assert facts.newest_leader() is None
    assert facts.hosts() == []
    assert [int(node.node_id) for node in facts.voters()] == [1, 2, 3]
    world, leader = led_world()
    assert world.facts.newest_leader() is leader
    assert len(world.facts.hosts()) == 3
    assert world.facts.ledger(world.nodes[1]) is world.nodes[1].ledger


def test_the_newest_leader_is_one_that_runs() -> None:
    world, leader = led_world()
    world.nodes[leader.node_id].kill()
    run_until(world, lambda: world.facts.newest_leader() is not None)
    newest = world.facts.newest_leader()
    assert newest is not None
    assert newest.host.status.epoch > 1


def test_a_voter_that_its_voter_set_has_elsewhere_may_be_doubted_for_the_longest_pause() -> None:
    world, _ = led_world()
    node = world.nodes[2]
    assert world.facts.doubts_us(node) == 0
    elsewhere = Listeners(((LISTENER, Endpoint("elsewhere", 9_092)),))
    node.config = replace(node.config, advertised_listeners=elsewhere)
    timeouts = world.facts.doubts_us(node) / (world.scenario.quorum.election_timeout_ms * 1_000)
    assert timeouts == 128


def test_no_part_can_be_exchanged() -> None:
    facts = calm_world().facts
    with pytest.raises(FrozenInstanceError):
        facts.committed = Ledger()  # type: ignore[misc]


def test_a_stranger_that_names_an_epoch_has_spoken() -> None:
    claims = Claims()
    assert not claims.is_any
    claims.epochs.add(7)
    assert claims.is_any


def test_a_flipped_bit_claims_something() -> None:
    assert Claims(is_flipped=True).is_any
