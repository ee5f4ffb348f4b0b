"""A program's own test: a good state machine passes, and a bad one is told so that it can be repeated.

A test's own program runs on each process, and what it asserts is a finding; callers note each kind of answer.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, cast

import pytest

from pykraft.errors import (
    CommandRejectedError,
    NotAppliedError,
    OutcomeUnknownError,
    QuorumUnavailableError,
    UsageError,
)
from pykraft.machine import Replicated
from pykraft.machine.testing import SimulationFailedError, simulate, users, workload
from pykraft.machine.testing.recorded import CallHistory, CallVerdict, RecordedNode, Reference, WatchedMachine
from pykraft.machine.testing.simulate import ORACLES, run_machines, scenario_of
from pykraft.machine.testing.users import MachineUsers
from pykraft.machine.testing.workload import DrawnCommands, MachineCaller, MachineProgram, RepeatedProgram
from pykraft.recipes import KeyValues, KeyValueStore
from pykraft.sim.invariants import ViolationError
from pykraft.sim.machine.clock import Clock
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome, World
from tests.machine.counters import Add, Counters
from tests.machine.testing.bugs import BUGS, DiceCounters, ForgetfulCounters, draw
from tests.machine.testing.search import noticed
from tests.sim.worlds import SEED_OF_THREE, THREE, run_until, started


@pytest.mark.sim
def test_counters_pass_in_all_worlds() -> None:
    report = simulate(Counters, draw, seeds=range(10))
    assert report.worlds == 10
    assert report.commands > 300
    assert report.faults > 30


@pytest.mark.sim
def test_a_failure_is_made_smaller_and_drawn(tmp_path: Path) -> None:
    page = tmp_path / "failure.html"
    with pytest.raises(SimulationFailedError) as raised:
        simulate(ForgetfulCounters, draw, seeds=range(20), page=page)
    text = str(raised.value)
    assert "EqualReplicas: " in text
    assert f"repeat it with simulate(..., seeds=[{raised.value.failure.seed}])" in text
    assert "EqualReplicas" in page.read_text()


def test_no_worlds_and_an_unknown_scenario_are_refused() -> None:
    with pytest.raises(UsageError, match="no world"):
        simulate(Counters, draw, seeds=())
    with pytest.raises(UsageError, match="either commands or a program"):
        simulate(Counters, seeds=(1,))
    with pytest.raises(UsageError, match="everything"):
        simulate(Counters, draw, seeds=(1,), faults="everything")


COMMANDS = partial(DrawnCommands, draw)


@pytest.mark.sim
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_noticed(name: str) -> None:
    found = noticed(BUGS[name], BUGS[name].seed)
    assert found is not None
    assert found[0] == BUGS[name].noticed_by, found


@pytest.mark.sim
@pytest.mark.parametrize("seed", sorted({bug.seed for bug in BUGS.values()}))
def test_without_the_bug_the_same_world_passes(seed: int) -> None:
    outcome = run_machines(Counters, COMMANDS, seed, scenario=scenario_of("all"))
    assert isinstance(outcome, Outcome), outcome
    again = run_machines(Counters, COMMANDS, seed, scenario=scenario_of("all"))
    assert isinstance(again, Outcome)
    assert again.digest == outcome.digest  # a failure can be repeated


@pytest.mark.sim
def test_a_disk_error_while_a_snapshot_is_loaded_ends_the_process_and_not_the_world() -> None:
    outcome = run_machines(Counters, COMMANDS, 23, scenario=scenario_of("all"), check_every=20)
    assert isinstance(outcome, Outcome), outcome


@pytest.mark.sim
@pytest.mark.parametrize("check_every", [1, 7])
def test_nodes_notice_by_themselves_that_they_have_parted(monkeypatch: pytest.MonkeyPatch, check_every: int) -> None:
    # The oracle of the simulator, which compares all replicas after each command, looks away.
    monkeypatch.setattr(Reference, "met", lambda *_: None)
    monkeypatch.setattr(users, "judge", lambda *_: None)
    failure = run_machines(DiceCounters, COMMANDS, 0, scenario=scenario_of("all"), check_every=check_every)
    assert isinstance(failure, Failure)
    assert "ReplicasPartedError: the replicas have parted: the command at offset" in failure.reason


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
