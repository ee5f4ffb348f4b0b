"""Which voter sets count: the configuration's, those on disks, and each log's."""

from __future__ import annotations

from dataclasses import replace

from pykraft.core.messages import RemoveVoterRequest
from pykraft.sim.clients.admin import OperatorStation
from pykraft.sim.run.world import World
from pykraft.sim.scenario.scenario import MembershipSettings
from pykraft.sim.scenario.settings import port_of
from pykraft.types import VoterSet
from tests.sim.worlds import THREE, calm_world, dynamic_world, led, led_world, run_until


def test_in_a_static_world_the_configured_voters_vote_for_ever() -> None:
    world, _ = led_world()
    assert not world.members.may_change
    assert world.members.in_force() == [world.facts.members.electorate.initial]
    assert [int(node.node_id) for node in world.facts.voters()] == [1, 2, 3]
    config = world.nodes[1].config
    assert world.members.with_bootstrap(config) is config


def test_a_set_counts_from_the_moment_that_it_is_in_a_log() -> None:
    world, leader = led(dynamic_world())
    node = world.nodes[leader.node_id]
    (opening,) = world.facts.members.electorate.records
    assert opening.is_opening
    assert world.members.in_force() == [world.facts.members.electorate.initial]
    for other in world.nodes.values():
        if other is not node:
            other.kill()
    OperatorStation(world.facts, world.witness).ask(leader, RemoveVoterRequest(voter=node.key), lambda _: None)
    run_until(world, lambda: len(world.facts.members.electorate.records) == 2)
    after = world.facts.members.electorate.records[-1].voters
    assert world.members.voters_of(node) == after
    assert world.members.in_force() == [world.facts.members.electorate.initial, after]
    assert world.members.committed == world.facts.members.electorate.initial
    assert world.members.nodes_of(after) == [other for other in world.nodes.values() if other is not node]


def test_a_newcomer_knows_nobody_and_is_told_where_everybody_is() -> None:
    world = dynamic_world()
    node = world.newcomer()
    assert node.node_id == 4
    assert node.first_voters == VoterSet()
    assert node.key.directory_id is not None
    assert node not in world.facts.voters()
    told = world.members.with_bootstrap(node.config).bootstrap_servers
    assert [endpoint.port for endpoint in told] == [port_of(each.config) for each in world.nodes.values()]
    world.nodes[1].start()
    world.nodes[2].start()
    node.start()
    run_until(world, lambda: node.host is not None and node.host.status.role == "observer")


def test_a_newcomer_to_a_static_quorum_is_configured_with_its_voters() -> None:
    world = calm_world()
    node = world.newcomer()
    assert not world.members.is_at_level_one
    assert node.first_voters == world.facts.members.electorate.initial
    node.start()
    assert node.host is not None
    assert node.host.status.kraft_version == 0


def test_nodes_join_by_themselves_as_the_scenario_says() -> None:
    for probability in (0.0, 1.0):
        membership = MembershipSettings(dynamic_probability=1, auto_join_probability=probability)
        world = World(1, scenario=replace(THREE, membership=membership))
        assert {node.config.raft.auto_join for node in world.nodes.values()} == {probability == 1}
