"""What was acknowledged is remembered where it was acknowledged; what was not, is not."""

from __future__ import annotations

from random import Random

from pykraft.sim.workload import Workload
from tests.sim.worlds import calm_world, led_world, run_for, run_until


def test_values_are_proposed_at_the_leader_and_their_places_remembered() -> None:
    world, leader = led_world()
    world.workload.begin()
    run_until(world, lambda: len(world.workload.acknowledged) >= 5)
    proposed = [value for _, values in sorted(world.workload.acknowledged.items()) for value in values]
    numbers = [int(value[:12]) for value in proposed]
    assert numbers == sorted(set(numbers))
    assert all(1 <= len(values) <= world.scenario.work.values_max for values in world.workload.acknowledged.values())
    assert world.workload.acknowledged_end_offset <= (leader.host.high_watermark or 0)


def test_nothing_is_acknowledged_without_a_majority() -> None:
    world, leader = led_world()
    for node in world.nodes.values():
        if node.node_id != leader.node_id:
            world.network.cut(leader.node_id, int(node.node_id))
            world.network.cut(int(node.node_id), leader.node_id)
    world.workload.begin()
    run_for(world, 300_000)
    assert leader.host.role == "leader"
    assert world.workload.proposed > 0
    assert not world.workload.acknowledged


def test_without_a_leader_nothing_is_proposed() -> None:
    world = calm_world()
    workload = Workload(world, Random(1))
    workload.begin()
    run_for(world, 100_000)
    assert workload.proposed == 0
