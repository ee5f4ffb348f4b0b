"""A world whose nodes run a program's state machine: what its callers see, and what ends it."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from pykraft.errors import CommandRejectedError
from pykraft.machine import Applied
from pykraft.machine.testing.judge import CallVerdict
from pykraft.machine.testing.simulate import ORACLES
from pykraft.machine.testing.users import MachineUsers
from pykraft.machine.testing.workload import CALLERS, DrawnCommands
from pykraft.sim.invariants import ViolationError
from pykraft.sim.run.world import World
from tests.machine.counters import Add, Counters
from tests.machine.testing.bugs import draw
from tests.sim.worlds import SEED_OF_THREE, THREE, run_until, started

CALM = replace(THREE, course=replace(THREE.course, progress_records=5))


def world_of(machine: type[Counters] = Counters) -> tuple[World, MachineUsers]:
    world = World(
        SEED_OF_THREE, scenario=CALM, oracles=ORACLES, make_users=partial(MachineUsers, machine, DrawnCommands(draw))
    )
    assert isinstance(world.users, MachineUsers)
    return world, world.users


def test_callers_on_all_nodes_get_results_and_read() -> None:
    world, users = world_of()
    started(world)
    run_until(world, lambda: users.acknowledged >= 30)
    users.over()
    users.abandon()
    calls = [call for call in users.history.calls if call.verdict is CallVerdict.APPLIED]
    assert {call.node_id for call in calls if call.is_read} == {1, 2, 3}
    assert {call.node_id for call in calls if not call.is_read} == {1, 2, 3}
    assert any(call.answer.startswith("rejected: ") for call in calls)
    assert users.acknowledged_end_offset > 30
    assert sum(call.verdict is CallVerdict.OPEN for call in users.history.calls) <= CALLERS * 3


def test_a_killed_process_leaves_its_calls_open() -> None:
    world, users = world_of()
    started(world)
    run_until(world, lambda: users.acknowledged >= 10)
    world.nodes[1].kill()
    known = users.acknowledged
    run_until(world, lambda: users.acknowledged >= known + 10)
    users.abandon()
    open_calls = [call for call in users.history.calls if call.node_id == 1 and call.verdict is CallVerdict.OPEN]
    assert len(open_calls) <= CALLERS
    assert all(call.answered_us is None for call in open_calls)


def test_a_machine_that_fails_ends_the_world() -> None:
    class Broken(Counters):
        def apply(self, command: Add, context: Applied) -> int:
            if len(self.contexts) == 5:
                raise ZeroDivisionError("a bug")
            return super().apply(command, context)

    world, users = world_of(Broken)
    with pytest.raises(ViolationError, match=r"MachineGoesOn: the state machine of node . failed: ZeroDivisionError"):
        run_until(started(world), lambda: False)
    users.abandon()


def test_replicas_that_part_end_the_world() -> None:
    class Own(Counters):
        count = 0

        def apply(self, command: Add, context: Applied) -> int:
            Own.count += 1
            if Own.count % 5 == 0:
                raise CommandRejectedError("it is my fifth one")
            return super().apply(command, context)

    world, users = world_of(Own)
    with pytest.raises(ViolationError, match=r"EqualReplicas: node . answered call"):
        run_until(started(world), lambda: False)
    users.abandon()
