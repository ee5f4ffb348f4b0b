"""Acknowledged values count at the node that acknowledged them; others do not count."""

from __future__ import annotations

from random import Random

from pykraft.sim.clients.prepared_appends import PreparedAppends
from pykraft.sim.clients.workload import SimulatedWorkload
from pykraft.sim.facts.history import OperationOutcome, number_of
from tests.sim.worlds import calm_world, led_world, run_for, run_until


def test_clients_call_the_leader_and_what_they_are_told_is_kept() -> None:
    world, leader = led_world()
    world.users.begin()
    run_until(world, lambda: world.users.acknowledged >= 40)
    history = world.facts.history.operations
    numbers = [number_of(value) for operation in history for value in operation.values]
    assert numbers == list(range(1, len(numbers) + 1))
    committed = [operation for operation in history if operation.answer is OperationOutcome.COMMITTED]
    assert sum(len(operation.values) for operation in committed) == world.users.acknowledged
    assert {operation.node_id for operation in history} == {leader.node_id}
    assert all(operation.answered_us is not None and operation.is_alive() for operation in committed)
    assert world.users.acknowledged_end_offset == max(operation.end_offset for operation in committed)
    assert world.users.acknowledged_end_offset <= (leader.host.status.high_watermark or 0)
    assert any(operation.is_read and operation.read for operation in committed)


def test_a_leader_that_loses_its_place_leaves_outcomes_open() -> None:
    world, leader = led_world()
    for other in world.nodes:
        world.network.cut(leader.node_id, other)
        world.network.cut(other, leader.node_id)
    world.users.begin()
    run_until(world, lambda: leader.host.status.role != "leader")
    answers = {operation.answer for operation in world.facts.history.operations}
    assert answers == {OperationOutcome.UNKNOWN}


def test_a_paused_leader_is_not_called() -> None:
    world, leader = led_world()
    leader.pause(300_000)
    world.users.begin()
    run_for(world, 200_000)
    assert not world.facts.history.operations


def test_nothing_is_acknowledged_without_a_majority() -> None:
    world, leader = led_world()
    for node in world.nodes.values():
        if node.node_id != leader.node_id:
            world.network.cut(leader.node_id, int(node.node_id))
            world.network.cut(int(node.node_id), leader.node_id)
    world.users.begin()
    run_for(world, 300_000)
    assert leader.host.status.role == "leader"
    assert world.facts.history.operations
    assert not world.users.acknowledged


def test_without_a_leader_nothing_is_proposed() -> None:
    world = calm_world()
    workload = SimulatedWorkload(world.facts, world.watch, Random(1), PreparedAppends(None), Random)
    workload.begin()
    run_for(world, 100_000)
    assert workload.proposed == 0
