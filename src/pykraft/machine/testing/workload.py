"""What the processes of a simulated world do with their state machine: drawn commands, or a program of the test's own.

Invariant: everything that a workload draws comes from the random generator of its process.

Source: ours (ADR 058); Jepsen's processes, of which each is one logical thread of the history.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any, Final, TypeAlias, cast

from pykraft.errors import PykraftError
from pykraft.machine.replicated import Replicated
from pykraft.machine.testing.recorded import CallHistory, RecordedNode
from pykraft.sim.facts.facts import Facts
from pykraft.sim.machine.node import SimulatedNode

DrawCommand: TypeAlias = Callable[[Random], Any]
"""Draws the next command."""
READ_PROBABILITY: Final = 0.3
PAUSE_MS_MAX: Final = 80
TIMEOUT_MS_MAX: Final = 900


class MachineCaller:
    """One caller on one process."""

    def __init__(self, draw: DrawCommand, node: RecordedNode, rng: Random) -> None:
        self._draw = draw
        self._node = node
        self._rng = rng

    async def run(self) -> None:
        """Call again and again; the history says what became of each call."""
        while True:
            await asyncio.sleep(self._rng.randrange(PAUSE_MS_MAX) / 1_000)
            timeout_ms = self._rng.randint(TIMEOUT_MS_MAX // 30, TIMEOUT_MS_MAX)
            with suppress(PykraftError):
                if self._rng.random() < READ_PROBABILITY:
                    async with self._node.read(timeout_ms=timeout_ms):
                        pass
                else:
                    await self._node.execute(self._draw(self._rng), timeout_ms=timeout_ms)


CALLERS: Final = 2
"""Callers on each process that draw commands."""

"""Between two runs of a program."""

MachineProgram: TypeAlias = Callable[[Replicated[Any], Random], Awaitable[None]]
"""What a test runs on each process, with the node and a random generator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessSeat:
    """What a workload gets of one process."""

    node: RecordedNode
    machine: SimulatedNode
    """The simulated machine on which the process runs."""
    random: Random

    async def pause(self, most_ms: int = PAUSE_MS_MAX) -> None:
        """Do nothing for a while."""
        await asyncio.sleep(self.random.randrange(most_ms) / 1_000)


class MachineWorkload:
    """The workload of one world."""

    def begin(self, facts: Facts, history: CallHistory) -> None:
        """The world begins."""

    async def run(self, seat: ProcessSeat) -> None:
        """What one process does, until it ends; nothing by default."""

    def over(self) -> None:
        """The world has healed. Errors: ViolationError."""


class DrawnCommands(MachineWorkload):
    """Each process has callers that execute commands which the test draws, and read."""

    def __init__(self, draw: DrawCommand) -> None:
        self._draw = draw

    async def run(self, seat: ProcessSeat) -> None:
        callers = [MachineCaller(self._draw, seat.node, Random(seat.random.random())).run() for _ in range(CALLERS)]
        await asyncio.gather(*callers)


class RepeatedProgram(MachineWorkload):
    """Each process runs the test's program again and again; what pykraft raises ends one run, as faults do."""

    def __init__(self, program: MachineProgram) -> None:
        self._program = program

    async def run(self, seat: ProcessSeat) -> None:
        """See `MachineWorkload`. Errors: whatever the program raises, but PykraftError."""
        while True:
            with suppress(PykraftError):
                await self._program(cast("Replicated[Any]", seat.node), seat.random)
            await seat.pause()
