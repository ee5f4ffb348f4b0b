"""Every report of nodes and clients reaches its oracle or fault."""

from __future__ import annotations

from dataclasses import replace

from pykraft.sim.machine.dialect import KAFKA_3_9
from pykraft.types import Endpoint
from tests.sim.worlds import calm_world, dynamic_world, led_world


def test_a_node_that_starts_is_given_its_ledger_and_its_application() -> None:
    world, leader = led_world()
    node = world.nodes[leader.node_id]
    end_offset = world.facts.platters.end_offset(node)
    node.kill()
    assert node.node_id not in world.witness.ends
    node.start()
    assert world.witness.ends[node.node_id] == 0
    assert node.ledger.end_offset == end_offset


def test_an_old_version_is_remembered() -> None:
    world = calm_world()
    assert world.facts.members.has_pre_votes
    world.witness.starting(world.nodes[1])
    assert world.facts.members.has_pre_votes
    world.nodes[1].dialect = KAFKA_3_9
    world.witness.starting(world.nodes[1])
    world.nodes[1].dialect = None
    world.witness.starting(world.nodes[1])
    assert not world.facts.members.has_pre_votes


def test_where_voters_may_change_a_process_is_told_of_all_addresses() -> None:
    world = dynamic_world()
    node = world.nodes[1]
    addresses = tuple(Endpoint(f"node-{node_id}", node_id) for node_id in world.nodes)
    assert world.witness.configured(node) == replace(node.config, bootstrap_servers=addresses)
    fixed = calm_world()
    assert fixed.witness.configured(fixed.nodes[1]) == fixed.nodes[1].config


def test_what_clients_are_told_is_counted_and_noted() -> None:
    world = calm_world()
    node = world.nodes[2]
    before = world.trace.digest
    world.witness.happened("snapshot taken", node)
    assert world.faults.counts["snapshot taken"] == 1
    world.witness.note(node, "is looked at")
    assert world.trace.lines[-1].endswith("2  is looked at")
    noted = world.trace.digest
    world.witness.absorb(b"frame")
    assert len({before, noted, world.trace.digest}) == 3
    world.witness.given(node, 7)
    assert world.witness.ends[node.node_id] == 7
