"""A test's own program runs on each process, again and again, and what it asserts is a finding."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from random import Random

import pytest

from pykraft.errors import NotAppliedError
from pykraft.machine import Replicated
from pykraft.machine.testing.simulate import ORACLES
from pykraft.machine.testing.users import MachineUsers
from pykraft.machine.testing.workload import MachineProgram, RepeatedProgram
from pykraft.recipes import KeyValues, KeyValueStore
from pykraft.sim.invariants import ViolationError
from pykraft.sim.run.world import World
from tests.machine.counters import Add, Counters
from tests.sim.worlds import SEED_OF_THREE, THREE, run_until, started

CALM = replace(THREE, course=replace(THREE.course, progress_records=5))


def world_of(program: MachineProgram, machine: type[Counters | KeyValues] = Counters) -> tuple[World, MachineUsers]:
    users = partial(MachineUsers, machine, RepeatedProgram(program))
    world = World(SEED_OF_THREE, scenario=CALM, oracles=ORACLES, make_users=users)
    assert isinstance(world.users, MachineUsers)
    return world, world.users


def test_a_program_is_repeated_after_errors_of_pykraft() -> None:
    runs = 0

    async def program(node: Replicated[Counters], random: Random) -> None:
        nonlocal runs
        runs += 1
        await node.execute(Add(random.choice("xy"), 1))
        async with node.read() as state:
            assert sum(state.totals.values()) > 0
        raise NotAppliedError("as under a fault")

    world, users = world_of(program)
    run_until(started(world), lambda: users.acknowledged >= 12)
    users.over()
    users.abandon()
    assert runs >= 12
    assert {call.node_id for call in users.history.calls} == {1, 2, 3}


def test_what_a_program_asserts_is_a_finding() -> None:
    async def program(node: Replicated[Counters], random: Random) -> None:
        del random
        assert await node.execute(Add("x", 1)) < 5, "too many"

    world, users = world_of(program)
    with pytest.raises(
        ViolationError, match=r"MachineGoesOn: the state machine of node . failed: AssertionError: too many"
    ):
        run_until(started(world), lambda: False)
    users.abandon()


def test_leases_end_in_a_world() -> None:
    async def program(node: Replicated[KeyValues], random: Random) -> None:
        del random
        store = KeyValueStore(node)
        if await store.get("alive") is None:  # with a lease that nobody keeps
            await store.put("alive", "", lease=await store.grant_lease(1_000))

    world, users = world_of(program, KeyValues)
    run_until(started(world), lambda: any(call.number < 0 for call in users.history.reference.calls))
    users.over()
    users.abandon()
