"""A world whose nodes run a program's state machine: what its callers see, its connections, and what ends a node."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from pykraft.errors import CommandRejectedError, NotRunningError, UnreachableError, UsageError
from pykraft.machine import Applied
from pykraft.machine.testing.recorded import CallVerdict
from pykraft.machine.testing.simulate import ORACLES
from pykraft.machine.testing.users import (
    TURNS_MAX,
    MachineUsers,
    SimulatedEngine,
    SimulatedLink,
    VirtualLoop,
    open_link,
)
from pykraft.machine.testing.workload import CALLERS, DrawnCommands
from pykraft.protocol.messages import ApiKey
from pykraft.sim.facts.history import WRITE, value_of
from pykraft.sim.invariants import ViolationError
from pykraft.sim.machine.clock import Clock, NodeClock
from pykraft.sim.machine.node import Process
from pykraft.sim.run.world import World
from pykraft.sim.scenario.settings import LISTENER
from pykraft.types import Endpoint
from tests.machine.counters import Add, Counters
from tests.machine.testing.bugs import draw
from tests.sim.worlds import SEED_OF_THREE, THREE, led, run_until, started, started_world

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


def led_by_program() -> tuple[World, Process]:
    """A world without oracles: they know only what its own clients propose."""
    return led(World(SEED_OF_THREE, scenario=THREE, oracles=()))


def test_calls_reach_the_host_at_the_machines_time() -> None:
    world, leader = led_by_program()
    failures: list[BaseException] = []
    engine = SimulatedEngine(world.nodes[leader.node_id], failures.append)
    outcomes: list[object] = []
    assert engine.host is not None
    assert engine.status is leader.host.status
    assert list(engine.not_taken_up) == []
    engine.host.propose([value_of(1, WRITE, 5)], epoch=leader.host.status.epoch, now=None, on_outcome=outcomes.append)  # type: ignore[arg-type]
    while not outcomes:
        world.turn()
    engine.metrics(outcomes.append)
    assert outcomes[1:] == [{}]
    engine.leave(100)
    while world.nodes[leader.node_id].process is leader:
        world.turn()
    refused: list[Exception] = []
    engine.call(lambda host: None, refused.append)
    assert isinstance(refused[0], NotRunningError)
    assert not failures


def test_errors_of_the_program_are_told() -> None:
    world, leader = led_by_program()
    failures: list[BaseException] = []
    engine = SimulatedEngine(world.nodes[leader.node_id], failures.append)
    refused: list[Exception] = []

    def wrong(_: object) -> None:
        raise UsageError("not so")

    engine.call(wrong, refused.append)
    assert [str(error) for error in refused] == ["not so"]
    engine.stop()
    assert not failures
    engine.fail(ZeroDivisionError())
    engine.fail(KeyError())
    assert [type(error) for error in failures] == [ZeroDivisionError, KeyError]


DESCRIBE = {"include_cluster_authorized_operations": False, "endpoint_type": 2}


def run(world: World, act: Callable[[Process, Endpoint], Awaitable[Any]]) -> Any:
    """Run this on node 1, with the address of node 2."""
    process = world.nodes[1].process
    assert process is not None
    loop = VirtualLoop(world.nodes[1].clock, process.later, lambda context: None)  # type: ignore[abstract]
    endpoint = world.nodes[2].config.advertised_listeners.get(LISTENER)
    assert endpoint is not None

    async def main() -> Any:
        return await act(process, endpoint)

    task = loop.create_task(main())
    run_until(world, task.done)
    return task.result()


async def opened(process: Process, endpoint: Endpoint) -> SimulatedLink:
    link = await open_link(process, endpoint, 500)
    assert isinstance(link, SimulatedLink)
    return link


def test_a_request_is_answered_by_the_other_node() -> None:
    async def act(process: Process, endpoint: Endpoint) -> Any:
        link = await opened(process, endpoint)
        assert link.endpoint == endpoint
        assert link.offers_key(ApiKey.DESCRIBE_CLUSTER)
        assert not link.offers_key(ApiKey.PRODUCE)
        first = await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=500)
        second = await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=500)
        await link.close()
        assert not link.is_open
        with pytest.raises(UnreachableError, match="closed"):
            await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=500)
        return first, second

    first, second = run(started_world(), act)
    assert first["cluster_id"] == second["cluster_id"] == "simulated"


def test_a_node_that_is_down_is_unreachable() -> None:
    world = started_world()
    world.nodes[2].kill()

    async def act(process: Process, endpoint: Endpoint) -> None:
        with pytest.raises(UnreachableError):
            await opened(process, endpoint)

    run(world, act)


def test_an_answer_that_is_held_back_times_out_and_closes_the_link() -> None:
    world = started_world()

    async def act(process: Process, endpoint: Endpoint) -> None:
        link = await opened(process, endpoint)
        world.network.cut(2, 1)
        with pytest.raises(UnreachableError, match="no answer within 300 ms"):
            await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=300)
        assert not link.is_open

    run(world, act)


def test_a_peer_that_dies_breaks_the_link() -> None:
    world = started_world()

    async def act(process: Process, endpoint: Endpoint) -> None:
        link = await opened(process, endpoint)
        world.nodes[2].kill()
        with pytest.raises(UnreachableError):
            await link.ask_body(ApiKey.DESCRIBE_CLUSTER, DESCRIBE, timeout_ms=3_000)
        assert not link.is_open

    run(world, act)


class LoopWorld:
    """One loop on a clock of its own."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.node_clock = NodeClock(self.clock)
        self.failures: list[dict[str, Any]] = []
        self.loop = VirtualLoop(self.node_clock, self.clock.after, self.failures.append)  # type: ignore[abstract]

    def run(self) -> None:
        while self.clock.advance():
            pass


def test_tasks_and_timers_run_in_virtual_time() -> None:
    world = LoopWorld()
    seen: list[object] = []

    async def main() -> None:
        rung = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_later(1.5, rung.set_result, None)
        await rung
        seen.append(asyncio.get_running_loop().time())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await asyncio.get_running_loop().create_future()
        seen.append(asyncio.get_running_loop().time())

    task = world.loop.create_task(main())
    world.run()
    assert task.done()
    assert seen == [1.5, 3.5]
    assert world.clock.now_us == 3_500_000
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()  # nothing runs between two turns


def test_a_timer_follows_the_clock_of_its_machine() -> None:
    world = LoopWorld()
    seen: list[object] = []
    world.loop.call_later(1, lambda: seen.append(world.clock.now_us))
    world.clock.after(500_000, lambda: world.node_clock.go_at(500_000))  # from here on half as fast
    world.run()
    assert seen == [1_500_000]


def test_no_timer_rings_before_its_time() -> None:
    world = LoopWorld()
    when = 0.264 + 0.3
    assert when > 0.564  # but when * 1,000 is 564
    seen: list[float] = []
    world.loop.call_at(when, lambda: seen.append(world.loop.time()))
    world.run()
    assert seen == [0.565]


def test_a_cancelled_call_does_not_run() -> None:
    world = LoopWorld()
    seen: list[object] = []
    world.loop.call_soon(seen.append, 1).cancel()
    world.loop.call_later(1, seen.append, 2).cancel()
    world.loop.call_soon(seen.append, 3)
    world.run()
    assert seen == [3]


def test_an_exception_that_nobody_awaits_is_told() -> None:
    world = LoopWorld()

    async def main() -> None:
        raise ZeroDivisionError

    world.loop.create_task(main()).add_done_callback(lambda _: None)
    world.run()
    world.loop.abandon()
    assert world.loop.is_running()
    assert not world.loop.is_closed()
    world = LoopWorld()

    def call() -> None:
        raise ZeroDivisionError

    world.loop.call_soon(call)
    with pytest.raises(ZeroDivisionError):
        world.run()


def test_an_abandoned_loop_drops_its_tasks_in_silence() -> None:
    world = LoopWorld()
    seen: list[object] = []

    async def main() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            seen.append("closed")

    task = world.loop.create_task(main())
    world.run()
    assert not task.done()
    world.loop.abandon()
    del task
    assert seen == ["closed"]
    assert not world.failures


def test_a_loop_that_goes_on_without_waiting_is_told_once() -> None:
    world = LoopWorld()
    loop = world.loop
    ended: list[bool] = []

    def count(left: int, then: Callable[[], object]) -> None:
        if left:
            loop.call_soon(count, left - 1, then)
        else:
            then()

    def rest() -> None:
        loop.call_later(0.001, count, TURNS_MAX - 10, partial(ended.append, True))

    count(TURNS_MAX - 10, rest)
    world.run()
    assert ended == [True]
    assert world.failures == []
    count(3 * TURNS_MAX, partial(ended.append, False))
    world.run()
    assert [failure["message"] for failure in world.failures] == [
        "10000 turns within a millisecond: a task goes on without waiting"
    ]
