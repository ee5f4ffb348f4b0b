"""Each voter change is requested until it is done, and none leaves the quorum without a majority."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pykraft.sim.faults.harm import Harm
from pykraft.sim.faults.membership import MembershipFaults
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import ClusterSettings, MembershipSettings
from pykraft.sim.scenario.settings import PORTS_APART, port_of
from tests.sim.worlds import THREE, calm_world, dynamic_world, harm_to, has_noted, led, led_world, run_for, run_until


def family_of(world: World) -> tuple[MembershipFaults, Harm]:
    """The world's own harm has a family, too: what that one is told of is nobody's concern here."""
    harm = harm_to(world)
    return MembershipFaults(harm), harm


def test_a_new_node_is_added_when_it_has_caught_up() -> None:
    world, _ = led(dynamic_world(newcomers=1))
    family, harm = family_of(world)
    assert family.kinds["new voter"]()
    assert not family.kinds["new voter"](), "the scenario has one newcomer"
    run_until(world, lambda: harm.counts["new voter"] == 1)
    assert [int(node.node_id) for node in world.facts.voters()] == [1, 2, 3, 4]
    assert not world.facts.requests.joining


def test_an_observer_is_promoted() -> None:
    world, _ = led(dynamic_world(observers=1))
    family, harm = family_of(world)
    assert family.kinds["promotion"]()
    assert not family.kinds["promotion"](), "there is no other one"
    run_until(world, lambda: harm.counts["promotion"] == 1)
    assert len(world.facts.voters()) == 4


@pytest.mark.parametrize(("kind", "leads"), [("removal", False), ("leader removal", True)])
def test_a_voter_is_removed(kind: str, leads: bool) -> None:
    world, leader = led(dynamic_world())
    family, harm = family_of(world)
    assert family.kinds[kind]()
    (node,) = world.facts.requests.leaving
    assert (node.process is leader) is leads
    run_until(world, lambda: harm.counts[kind] == 1)
    assert node not in world.facts.voters()
    assert len(world.facts.voters()) == 2
    assert not world.facts.requests.leaving


def test_a_replaced_disk_is_removed_and_added_as_another_replica() -> None:
    world, _ = led(dynamic_world())
    family, harm = family_of(world)
    known = {node.node_id: node.key for node in world.nodes.values()}
    assert family.kinds["replaced disk"]()
    (node,) = [node for node in world.nodes.values() if node.key != known[node.node_id]]
    assert not world.facts.atlas.may_damage(next(other for other in world.facts.voters() if other is not node))
    run_until(world, lambda: harm.counts["promotion"] == 1)
    assert node in world.facts.voters()
    assert harm.counts["replaced disk"] == harm.counts["removal"] == 1


def test_a_voter_that_moves_tells_its_leader() -> None:
    world, _ = led(dynamic_world())
    family, _ = family_of(world)
    assert family.kinds["moved voter"]()
    (node,) = [node for node in world.nodes.values() if port_of(node.config) > PORTS_APART]
    assert family.kinds["moved voter"](), "again, since it is not one more that nobody reaches"
    assert [each for each in world.nodes.values() if port_of(each.config) > PORTS_APART] == [node]

    def is_known() -> bool:
        entry = world.members.committed.get(node.node_id)
        return entry is not None and entry.listeners == node.config.advertised_listeners

    run_until(world, is_known)
    assert world.facts.atlas.may_damage(node)


def test_a_static_quorum_is_upgraded_when_all_voters_have_told_their_directories() -> None:
    world, _ = led(World(8, scenario=replace(THREE, faults={"upgrade": 1.0})))
    family, harm = family_of(world)
    assert family.kinds["upgrade"]()
    run_until(world, lambda: harm.counts["upgrade"] == 1)
    run_until(world, lambda: world.members.committed_record is not None)
    assert {voter.key for voter in world.members.committed.voters} == {node.key for node in world.nodes.values()}
    assert has_noted(world, "is asked for kraft.version 1: it is in the log")
    assert not family.kinds["upgrade"]()
    run_for(world, 500_000)


def test_nothing_is_asked_of_static_quorums_and_of_those_without_a_leader() -> None:
    for world in (led_world()[0], calm_world(), dynamic_world()):
        family, _ = family_of(world)
        done = {kind for kind, act in family.kinds.items() if act()}
        assert done <= {"replaced disk", "moved voter", "upgrade", "cut after voters"}


def test_the_only_voter_stays_and_two_are_not_harmed() -> None:
    for count in (1, 2):
        scenario = replace(
            THREE,
            cluster=ClusterSettings(voters=(count,), observers=(0,)),
            membership=MembershipSettings(dynamic_probability=1),
        )
        world, _ = led(World(1, scenario=scenario))
        family, _ = family_of(world)
        assert not any(family.kinds[kind]() for kind in ("replaced disk", "moved voter"))
        assert family.kinds["leader removal"]() is (count > 1)


def test_after_the_faults_no_voter_is_added_and_lost_nodes_learn_the_addresses() -> None:
    world, _ = led(dynamic_world(newcomers=1))
    family, harm = family_of(world)
    assert family.kinds["new voter"]()
    family.stop()
    harm.end()
    run_for(world, 1_500_000)
    assert harm.counts["new voter"] == 0
    stranger = world.nodes[4]
    assert stranger.process is not None


def test_a_leader_is_cut_off_with_the_voter_set_that_it_has_just_appended() -> None:
    world, leader = led(dynamic_world())
    family, harm = family_of(world)
    node = world.nodes[leader.node_id]
    family.voters_appended(node)
    assert not world.network.cut_links, "nobody waited for it"
    assert family.kinds["cut after voters"]()
    assert not family.kinds["cut after voters"](), "that is waited for already"
    family.voters_appended(node)
    assert harm.counts["cut after voters"] == 1
    assert world.network.cut_links == 2 * len(world.nodes) - 1
    family.kinds["cut after voters"]()
    family.stop()
    world.network.heal()
    family.voters_appended(node)
    assert not world.network.cut_links


def test_where_voters_never_change_nobody_waits_for_a_voter_set() -> None:
    world, _ = led_world()
    family, _ = family_of(world)
    assert not family.kinds["cut after voters"]()
