"""Every machine goes for good, twice, and none goes before each observer knows another one."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from pykraft.sim.faults.harm import Harm
from pykraft.sim.faults.machines import MachineFaults
from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import MACHINES, ClusterSettings, MembershipSettings
from tests.sim.worlds import THREE, calm_world, harm_to, has_noted, led, led_world, run_for, run_until

(KIND,) = MACHINES


def machines_world(voters: int = 1) -> World:
    """A dynamic quorum with an observer; nobody decides on faults."""
    scenario = replace(
        THREE,
        cluster=ClusterSettings(voters=(voters,), observers=(1,)),
        membership=MembershipSettings(dynamic_probability=1),
    )
    return led(World(8, scenario=scenario))[0]


def made(world: World) -> tuple[MachineFaults, Harm]:
    harm = harm_to(world)
    faults = MachineFaults(harm, MembershipFaults(harm))
    faults.use_dice(Random(1))
    return faults, harm


def replaced(world: World, faults: MachineFaults) -> None:
    """The next machine is replaced."""
    assert faults._replace()
    assert not faults._replace(), "one at a time"
    run_until(world, lambda: not faults._is_busy, limit_us=10_000_000)


def test_each_machine_is_replaced_twice_and_the_observer_follows() -> None:
    world = machines_world()
    world.users.begin()
    faults, harm = made(world)
    replaced(world, faults)
    assert (world.facts.absent, [int(node.node_id) for node in world.facts.voters()]) == ({1}, [3])
    replaced(world, faults)
    assert (world.facts.absent, [int(node.node_id) for node in world.facts.voters()]) == ({1, 3}, [4])
    assert not faults._replace(), "twice is enough"
    assert harm.counts[KIND] == 2
    observer = world.nodes[2]
    observer.kill()
    observer.start()
    assert observer.process is not None
    assert [endpoint.port for endpoint in observer.process.bootstrap] == [1]
    run_until(world, lambda: observer.status is not None and observer.status.leader_id == 4)
    goal = world.users.acknowledged + 20
    run_until(world, lambda: world.users.acknowledged > goal and world.watch.ends[2] == max(world.watch.ends.values()))


def test_the_last_machine_that_an_observer_knows_waits_for_it() -> None:
    world = machines_world()
    faults, _ = made(world)
    assert faults._replace()
    assert faults._switch_off()
    assert world.facts.absent == {2}
    assert not faults._switch_off(), "there is no other one"
    world.restart(world.nodes[2])
    assert world.nodes[2].process is None
    run_until(world, lambda: [int(node.node_id) for node in world.facts.voters()] == [3])
    run_for(world, 150_000)
    assert world.nodes[1].process is not None
    run_until(world, lambda: has_noted(world, "is gone for good"), limit_us=10_000_000)
    assert world.facts.absent == {1}


def test_an_observer_is_back_when_the_faults_end() -> None:
    world = machines_world(voters=3)
    faults, _ = made(world)
    assert not faults._switch_off(), "no machine is replaced yet"
    assert faults._replace()
    assert faults._switch_off()
    faults.stop()
    assert not world.facts.absent
    world.restart(world.nodes[4])
    assert world.nodes[4].process is not None


def test_decisions_do_both() -> None:
    world = machines_world(voters=3)
    faults, _ = made(world)
    run_until(world, lambda: faults.kinds[KIND]() and bool(faults._away) and faults._is_busy)


def test_static_quorums_stay() -> None:
    for world in (led_world()[0], calm_world()):
        faults, _ = made(world)
        assert not faults._replace()
        assert not faults._switch_off()
