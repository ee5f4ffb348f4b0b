"""A node on the host of a simulated process: the machine's time, and what ends the node."""

from __future__ import annotations

from pykraft.errors import NotRunningError, UsageError
from pykraft.machine.testing.engine import SimulatedEngine
from pykraft.sim.facts.history import WRITE, value_of
from pykraft.sim.machine.node import Process
from pykraft.sim.run.world import World
from tests.sim.worlds import SEED_OF_THREE, THREE, led


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
    engine.fail_unless_ended(NotRunningError("over"))
    assert not failures
    engine.fail_unless_ended(ZeroDivisionError())
    engine.fail(KeyError())
    assert [type(error) for error in failures] == [ZeroDivisionError, KeyError]
