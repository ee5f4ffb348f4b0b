"""The users of a simulated world whose nodes run a program's state machine.

Each process runs `pykraft.machine.Replicated` as a program would, on a loop in virtual time, and its workload with
it. A second, plain listener tells the world how far each process has come.

Source: ours (ADR 058).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from pykraft.errors import StorageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.host import Host
from pykraft.machine.replicated import Replicated
from pykraft.machine.runtime import MachineRuntime
from pykraft.machine.state_machine import StateMachine
from pykraft.machine.testing.engine import SimulatedEngine, SimulatedMember
from pykraft.machine.testing.judge import judge
from pykraft.machine.testing.link import open_link
from pykraft.machine.testing.recorded import CallHistory, RecordedNode
from pykraft.machine.testing.reference import WatchedMachine, fail_on
from pykraft.machine.testing.virtual_loop import VirtualLoop
from pykraft.machine.testing.workload import MachineWorkload, ProcessSeat
from pykraft.sim.clients.witness import Witness
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Epoch, NodeId, Offset

SESSION_TIMEOUT_MS: Final = 2_500
"""Short, so that sessions end within a world. It is longer than twice the longest call."""


class MachineUsers:
    """See `pykraft.sim.clients.users.Users`."""

    def __init__(
        self,
        make: Callable[[], StateMachine[Any, Any]],
        workload: MachineWorkload,
        facts: Facts,
        witness: Witness,
        dice: Callable[[str], Random],
        check_every: int | None = None,
    ) -> None:
        """``make`` makes the machine of a process."""
        self.history = CallHistory(facts.clock)
        self._workload = workload
        self._check_every = check_every
        self._make = make
        self._facts = facts
        self._witness = witness
        self._dice = dice
        self._starts = 0
        self._mains: list[asyncio.Task[None]] = []
        self._loops: list[VirtualLoop] = []
        """The loops of all processes: if one were collected, its tasks would run their last lines."""

    @property
    def acknowledged(self) -> int:
        """See `Users`."""
        return self.history.answered

    @property
    def acknowledged_end_offset(self) -> int:
        """See `Users`."""
        return self.history.answered_end_offset

    def begin(self) -> None:
        """See `Users`."""
        self._workload.begin(self._facts, self.history)

    def started(self, node: SimulatedNode) -> None:
        """See `Users`."""
        process, host = node.process, node.host
        assert process is not None
        assert host is not None
        self._starts += 1
        rng = self._dice(f"machine {self._starts}")
        # It lacks what needs sockets, threads or signals, and nothing here asks for that.
        loop = VirtualLoop(node.clock, process.later, partial(self._failed, node))  # type: ignore[abstract]
        engine = SimulatedEngine(node, partial(self._fail, node))
        runtime = MachineRuntime(
            make_node=lambda config, _: SimulatedMember(config, engine, loop),
            connect=partial(open_link, process),
            random_bytes=rng.randbytes,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            on_not_applied=fail_on,
        )
        machine = WatchedMachine(self._make(), self.history.reference, int(node.node_id))
        replicated = Replicated(node.config, machine, check_every=self._check_every, runtime=runtime)
        _Progress(self._witness, node).listen(host)
        self._mains.append(loop.create_task(self._main(node, replicated, rng), name=f"program {node.node_id}"))
        self._loops.append(loop)

    def abandon(self) -> None:
        """Nothing of this world runs any more."""
        for loop in self._loops:
            loop.abandon()

    def over(self) -> None:
        """See `Users`. Errors: ViolationError."""
        judge(self.history.calls, self.history.reference)
        self._workload.over()

    async def _main(self, node: SimulatedNode, replicated: Replicated[WatchedMachine[Any, Any]], rng: Random) -> None:
        await replicated.initialize()
        recorded = RecordedNode(self.history, int(node.node_id), replicated)
        try:
            await self._workload.run(ProcessSeat(node=recorded, machine=node, random=rng))
        except Exception as error:  # noqa: BLE001 - what a program raises is a finding
            self._fail(node, error)

    def _failed(self, node: SimulatedNode, context: dict[str, Any]) -> None:
        error = context.get("exception")
        self._fail(node, error if isinstance(error, BaseException) else RuntimeError(context.get("message")))

    def _fail(self, node: SimulatedNode, error: BaseException) -> None:
        """The program ended with an error: raise it where the world sees it."""
        process = node.process

        def end() -> None:
            if isinstance(error, StorageError):
                # A fault of its disk ends the process, as it would end a program; oracles check that there was one.
                if process is not None and node.process is process:
                    node.failed(error)
                return
            if isinstance(error, ViolationError):
                raise error
            seen = f"the state machine of node {node.node_id} failed: {type(error).__name__}: {error}"
            raise ViolationError("MachineGoesOn", seen) from error

        self._facts.clock.after(0, end)


class _Progress:
    """A plain listener that tells the world how far a process has come."""

    def __init__(self, witness: Witness, node: SimulatedNode) -> None:
        self._witness = witness
        self._node = node

    def listen(self, host: Host) -> None:
        """Listen from the log start on."""
        self._witness.watch.listens(self._node, host.status.log_start_offset)
        host.register(self, is_held=True, on_skipped=self._skipped).release()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        self._witness.watch.overheard(self._node, batches)
        self._witness.given(self._node, batches[-1].end_offset)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`: ignored."""

    def _skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        self._witness.watch.skipped(self._node, next_offset, start_offset)
        self._witness.given(self._node, int(start_offset))
