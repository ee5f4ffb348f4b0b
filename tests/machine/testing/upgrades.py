"""Worlds in which nodes are restarted with new code, one after the other, while callers use its new command.

The first processes of a world have old counters, which do not know `Scale`, and all that start later have new ones.
So a node that is never restarted keeps its old code, and its quorum never agrees on the new one. Invariant: no node
ends, whichever code it has, and all replicas are equal.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from pykraft.errors import OutcomeUnknownError, PykraftError
from pykraft.machine import Applied, StateMachine
from pykraft.machine.testing.recorded import CallHistory
from pykraft.machine.testing.simulate import run_machines, scenario_of
from pykraft.machine.testing.workload import MachineWorkload, ProcessSeat
from pykraft.sim.facts.facts import Facts
from pykraft.sim.run.simulation import Failure
from pykraft.sim.run.world import Outcome
from tests.machine.counters import Add, Counters

OLD_MAX = 8
"""Processes that begin with old code: at most five voters, and what is restarted before the upgrade begins."""
TIMEOUT_MS_MAX = 900


@dataclass
class Scale:
    """Multiply a counter."""

    key: str
    factor: int


class NewCounters(StateMachine[Add | Scale, int]):
    """The next version of `Counters`: it has another command, and adds twice as much once all nodes can."""

    code_version = 1

    def __init__(self) -> None:
        self.counters = Counters()

    def version_of(self, command: Add | Scale) -> int:
        return 1 if isinstance(command, Scale) else 0

    def apply(self, command: Add | Scale, context: Applied) -> int:
        if isinstance(command, Scale):
            totals = self.counters.totals
            totals[command.key] = totals.get(command.key, 0) * command.factor
            return totals[command.key]
        if context.code_version and command.amount > 0:
            command = Add(command.key, 2 * command.amount)
        return self.counters.apply(command, context)

    def snapshot(self) -> list[bytes]:
        return [*self.counters.snapshot()]

    def restore(self, records: object) -> None:
        self.counters.restore(records)  # type: ignore[arg-type]


class UpgradeWorkload(MachineWorkload):
    """Callers on each node add, and scale where the node has new code; they ask for what they were not told."""

    def __init__(self) -> None:
        self.history: CallHistory | None = None
        self.resumed = 0
        """Commands whose outcome was unknown, and was asked for."""

    def begin(self, facts: Facts, history: CallHistory) -> None:
        """See `MachineWorkload`."""
        del facts
        self.history = history

    async def run(self, seat: ProcessSeat) -> None:
        """See `MachineWorkload`."""
        random = seat.random
        while True:
            await seat.pause()
            command: Add | Scale = Add(random.choice("xy"), random.choice((1, 2, -3)))
            if isinstance(seat.node.machine, NewCounters) and random.random() < 0.4:
                command = Scale(random.choice("xy"), 2)
            with suppress(PykraftError):
                try:
                    await seat.node.execute(command, timeout_ms=random.randint(30, TIMEOUT_MS_MAX))
                except OutcomeUnknownError as error:
                    if error.command is not None:
                        await seat.pause()
                        await seat.node.resume(error.command, timeout_ms=TIMEOUT_MS_MAX)
                        self.resumed += 1
            with suppress(PykraftError):
                async with seat.node.read(timeout_ms=random.randint(30, TIMEOUT_MS_MAX)):
                    pass

    @property
    def scaled(self) -> int:
        """How many new commands were applied."""
        assert self.history is not None
        return sum(isinstance(call.command, Scale) for call in self.history.reference.calls)


def run_upgrade(seed: int, *, seen: Callable[[UpgradeWorkload], None] = lambda _: None) -> Outcome | Failure:
    """Run one world, without changes of voters: nobody asks an observer for its version."""
    scenario = scenario_of("default")
    scenario = replace(scenario, cluster=replace(scenario.cluster, observers=(0,)))
    old_left = Random(f"old code in world {seed}").randint(1, OLD_MAX)
    workload = UpgradeWorkload()

    def make() -> StateMachine[Add, int] | NewCounters:
        nonlocal old_left
        old_left -= 1
        return Counters() if old_left >= 0 else NewCounters()

    result = run_machines(make, lambda: workload, seed, scenario=scenario)
    seen(workload)
    return result
