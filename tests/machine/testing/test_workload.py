"""A test's own program runs on each process, and what it asserts is a finding; callers note each kind of answer."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any, cast

import pytest

from pykraft.errors import CommandRejectedError, NotAppliedError, OutcomeUnknownError, QuorumUnavailableError
from pykraft.machine import Replicated
from pykraft.machine.testing import workload
from pykraft.machine.testing.recorded import CallHistory, CallVerdict, RecordedNode, Reference, WatchedMachine
from pykraft.machine.testing.simulate import ORACLES
from pykraft.machine.testing.users import MachineUsers
from pykraft.machine.testing.workload import MachineCaller, MachineProgram, RepeatedProgram
from pykraft.recipes import KeyValues, KeyValueStore
from pykraft.sim.invariants import ViolationError
from pykraft.sim.machine.clock import Clock
from pykraft.sim.run.world import World
from tests.machine.counters import Add, Counters
from tests.machine.testing.bugs import draw
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


class Scripted:
    """Answers with what the script says, then never again."""

    def __init__(self, *answers: Any) -> None:
        self.machine: WatchedMachine[Any, Any] = WatchedMachine(Counters(), Reference(), 1)
        self.over = asyncio.Event()
        self._answers = list(answers)

    async def execute(self, command: object, *, timeout_ms: int) -> Any:
        assert timeout_ms > 0
        if not self._answers:
            self.over.set()
            await asyncio.get_running_loop().create_future()
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    @asynccontextmanager
    async def read(self, *, timeout_ms: int) -> AsyncIterator[WatchedMachine[Any, Any]]:
        await self.execute(None, timeout_ms=timeout_ms)
        yield self.machine


@pytest.mark.parametrize("is_read", [False, True])
async def test_each_answer_has_its_verdict(monkeypatch: pytest.MonkeyPatch, is_read: bool) -> None:
    monkeypatch.setattr(workload, "READ_PROBABILITY", float(is_read))
    monkeypatch.setattr(workload, "PAUSE_MS_MAX", 1)
    failures: list[Exception] = [CommandRejectedError("no"), OutcomeUnknownError("?"), NotAppliedError("out")]
    if is_read:
        failures = [QuorumUnavailableError("none")]
    history = CallHistory(Clock())

    scripted = Scripted(7, *failures)
    node = cast("Replicated[WatchedMachine[Any, Any]]", scripted)
    task = asyncio.create_task(MachineCaller(draw, RecordedNode(history, 1, node), Random(1)).run())
    await scripted.over.wait()
    task.cancel()
    verdicts = [call.verdict for call in history.calls]
    if is_read:
        assert verdicts == [CallVerdict.APPLIED, CallVerdict.NOT_APPLIED, CallVerdict.OPEN]
        assert history.calls[0].position == 0
    else:
        expected = [CallVerdict.APPLIED, CallVerdict.APPLIED, CallVerdict.UNKNOWN, CallVerdict.NOT_APPLIED]
        assert verdicts == [*expected, CallVerdict.OPEN]
        assert [call.answer for call in history.calls[:2]] == ["b'7'", "rejected: no"]
        assert history.answered == 2
