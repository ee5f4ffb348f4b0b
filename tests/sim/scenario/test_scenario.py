"""Worlds are drawn from the default scenario, apart from the fields that another one changes.

Every named kind of fault can be injected, and every injected one has a name.
"""

from pykraft.sim.faults.disk import DiskFaults, SilentFaults
from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.faults.network import NetworkFaults
from pykraft.sim.faults.process import ClockFaults, ProcessFaults, SnapshotFaults, VersionFaults
from pykraft.sim.faults.stranger import StrangerFaults
from pykraft.sim.faults.wipe import WipeFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import (
    CLOCK,
    CONSEQUENCES,
    DEFAULT,
    DEFAULT_FAULTS,
    KINDS,
    LOUD_DISK,
    MEMBERSHIP,
    NETWORK,
    PROCESS,
    SILENT_DISK,
    SNAPSHOT,
    STRANGER,
    VERSION,
    ClusterSettings,
    Course,
    QuorumSettings,
    Scenario,
)
from tests.sim.worlds import calm_world, harm_to


def test_a_world_without_a_scenario_has_the_default_one() -> None:
    assert World(1).scenario == DEFAULT == Scenario()


def test_a_scenario_decides_the_size_and_the_harm() -> None:
    scenario = Scenario(
        cluster=ClusterSettings(voters=(5,), observers=(2,)), course=Course(faults_us=50_000), faults={}
    )
    outcome = World(1, scenario=scenario).run()
    assert (outcome.voters, outcome.observers, outcome.faults) == (5, 2, {})


def test_a_world_without_operators_has_nodes_that_serve_none() -> None:
    quorum = QuorumSettings(without_operators_probability=1)
    for faults, served in (({}, ()), ({"promotion": 0}, ()), ({"promotion": 1}, None)):
        world = World(1, scenario=Scenario(quorum=quorum, faults=faults))
        assert {node.config.operator_listeners for node in world.nodes.values()} == {served}


def test_names_and_acts_are_the_same() -> None:
    harm = harm_to(calm_world())
    assert list(ProcessFaults(harm).kinds) == list(PROCESS)
    assert list(NetworkFaults(harm).kinds) == list(NETWORK)
    assert list(DiskFaults(harm).kinds) == list(LOUD_DISK)
    assert [*SilentFaults(harm).kinds, *WipeFaults(harm).kinds] == list(SILENT_DISK)
    assert list(ClockFaults(harm).kinds) == list(CLOCK)
    assert list(VersionFaults(harm).kinds) == list(VERSION)
    assert list(MembershipFaults(harm).kinds) == list(MEMBERSHIP)
    assert list(SnapshotFaults(harm).kinds) == list(SNAPSHOT)
    assert list(StrangerFaults(harm).kinds) == list(STRANGER)


def test_names_are_given_once() -> None:
    assert len({*KINDS, *CONSEQUENCES}) == len(KINDS) + len(CONSEQUENCES)
    assert DEFAULT_FAULTS.keys() <= set(KINDS)
