"""Each act of a stranger reaches its nodes; the quorum works meanwhile and afterwards."""

from __future__ import annotations

from random import Random

import pytest

from pykraft.sim.facts.claims import STRANGER_ID
from pykraft.sim.faults.stranger import StrangerFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.fault_kinds import STRANGER
from tests.sim.faults.worlds import harm_to, told
from tests.sim.worlds import calm_world, dynamic_world, led, led_world, run_for, run_until


def made(world: World, seed: int = 1) -> StrangerFaults:
    faults = StrangerFaults(harm_to(world))
    faults.use_dice(Random(seed))
    return faults


@pytest.mark.parametrize("kind", STRANGER)
def test_a_quorum_goes_on_whatever_a_stranger_does(kind: str) -> None:
    world, _ = led(dynamic_world())
    world.users.begin()
    for seed in range(3):
        faults = made(world, seed)
        run_until(world, faults.kinds[kind])
        run_for(world, 700_000)
        faults.stop()
    assert world.facts.claims.is_any
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal, limit_us=20_000_000)


def test_nobody_is_there_to_be_spoken_to_where_nothing_runs() -> None:
    for kind in STRANGER:
        assert not made(calm_world()).kinds[kind]()


def test_nobody_forges_a_fetch_that_could_not_be_told_from_the_voters_own() -> None:
    world, _ = led_world()
    assert not made(world).kinds["forged fetch"]()


def test_a_false_voter_answers_for_a_while_and_a_later_claim_is_not_ended_by_it() -> None:
    world, _ = led_world()
    faults = made(world)
    run_until(world, faults.kinds["false voter"])
    assert world.facts.claims.is_posing
    run_until(world, lambda: not world.facts.claims.is_posing, limit_us=4_000_000)
    run_until(world, faults.kinds["false voter"])
    run_until(world, faults.kinds["false leader"])
    assert not world.facts.claims.is_posing
    run_for(world, 3_000_000)
    assert told(world, "a stranger answers Fetches with")
    faults.stop()


def test_its_name_is_a_voters_or_nobodys() -> None:
    world, _ = led_world()
    assert made(world)._sender().id in {1, 2, 3, STRANGER_ID}
