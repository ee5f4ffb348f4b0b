"""A view describes a node, and equals another one if nothing has changed."""

from __future__ import annotations

from pykraft.sim.facts.platter import DurableElection
from pykraft.sim.facts.view import DOWN, view_of
from tests.sim.invariants.fakes import view
from tests.sim.worlds import calm_world, led_world, run_until


def test_a_node_that_is_down_shows_its_disk_only() -> None:
    seen = view_of(calm_world().nodes[1], DurableElection(epoch=3))
    assert (seen.role, seen.is_up, seen.disk.epoch) == (DOWN, False, 3)


def test_a_cluster_at_work() -> None:
    world, leader = led_world()
    run_until(world, lambda: all(node.process and node.process.ordered.is_idle for node in world.nodes.values()))
    seen = {node_id: view_of(node, world.facts.platters.election(node)) for node_id, node in world.nodes.items()}
    assert {node_id for node_id, each in seen.items() if each.leads} == {leader.node_id}
    assert {node_id for node_id, each in seen.items() if each.has_fetched} == set(seen) - {leader.node_id}
    assert {(each.epoch, each.disk.epoch, each.leader_id, each.is_settled) for each in seen.values()} == {
        (leader.host.status.epoch, leader.host.status.epoch, leader.node_id, True)
    }
    assert seen[1] == view_of(world.nodes[1], world.facts.platters.election(world.nodes[1]))


def test_roles_are_told_apart() -> None:
    assert [view(role).is_prospective for role in ("prospective", "prospective-voted", "candidate")] == [
        *(True, True, False)
    ]
