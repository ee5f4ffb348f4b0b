"""In a real world with an older directory, a leader that says nothing is noticed, and one that says so is not."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.core.on import fetch_request
from pykraft.sim.faults.wipe import BackupFaults
from pykraft.sim.invariants import ViolationError
from pykraft.sim.invariants.log.forgotten_told import ForgottenIsTold
from pykraft.sim.run.world import World
from tests.sim.faults.worlds import harm_to
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_for, run_until


def with_older_directory() -> World:
    """A follower has just lost most of what it acknowledged; only this oracle watches."""
    world, leader = led(World(SEED_OF_THREE, scenario=THREE, oracles=(ForgottenIsTold,)))
    world.users.begin()
    faults = BackupFaults(harm_to(world))
    faults.use_dice(Random(1))
    run_until(world, faults.kinds["older directory"])
    goal = world.users.acknowledged + 200
    run_until(world, lambda: world.users.acknowledged > goal)
    follower = next(node for node in world.facts.voters() if node.node_id != leader.node_id)
    run_until(world, lambda: int(follower.node_id) in faults._copies and faults._put_back(follower))
    return world


def test_a_leader_that_says_so_passes() -> None:
    run_for(with_older_directory(), 3_000_000)


@pytest.mark.interpreted
def test_a_silent_leader_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = with_older_directory()
    monkeypatch.setattr(fetch_request, "_watch_voter", lambda replica, leader, voter, fetch_offset: None)
    with pytest.raises(ViolationError, match=r"and has acknowledged \d+; node \d, the leader of epoch \d+, is silent"):
        run_for(world, 3_000_000)
