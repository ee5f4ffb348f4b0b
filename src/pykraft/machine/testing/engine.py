"""Runs a node on the host of a simulated process, in place of a server.

Invariant: all times that reach the host are those of the simulated machine. The process owns the host: it starts it,
and when it ends nobody hears of this engine again.

Source: ours; `pykraft.client.engine.Engine` is the one of a program.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from pykraft.client.node import Node
from pykraft.client.thread import LoopCall, NodeMain
from pykraft.client.watch import LeaderWatch
from pykraft.config import NodeConfig
from pykraft.core.status import Status
from pykraft.errors import NotRunningError, PykraftError, UsageError
from pykraft.host.host import Host
from pykraft.host.metrics import Metrics
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.snapshot.writer import Serializer
from pykraft.types import Epoch, Instant, Offset, OffsetAndEpoch

PIECE_RECORDS_MAX: Final = 3
"""Small, so that commands are applied between two pieces of a snapshot, as they are with a large state."""


class SimulatedEngine:
    """See `pykraft.client.life.NodeEngine`."""

    def __init__(self, node: SimulatedNode, failed: Callable[[BaseException], None]) -> None:
        """``failed`` hears of the error that would end the node."""
        assert node.process is not None
        self._node = node
        self._process: Process = node.process
        self._failed = failed
        self._timed = cast("Host", _TimedHost(node, self._process.host))

    @property
    def host(self) -> Host | None:
        """The host, with the machine's clock."""
        return self._timed

    @property
    def status(self) -> Status | None:
        """The host's status."""
        return self._process.host.status

    async def run(
        self,
        config: NodeConfig,
        *,
        sockets: Mapping[str, Sequence[socket.socket]],
        is_guest: bool,
        begin: Callable[[Host], None],
        begun: Callable[[], None],
    ) -> None:
        """Begin, and go on until the process ends."""
        del config, sockets, is_guest
        loop = asyncio.get_running_loop()
        begin(self._timed)
        loop.call_soon(begun)
        await loop.create_future()

    def call(self, act: Callable[[Host], object], refused: Callable[[PykraftError], object]) -> None:
        """Call the host."""
        if not self._process.is_running:
            refused(NotRunningError("the node has ended"))
            return
        self._process.touch()  # a call changes the node's state, so the oracles must look at it after this event
        try:
            act(self._timed)
        except UsageError as error:
            refused(error)

    def metrics(self, answer: Callable[[Metrics], object]) -> None:
        """Nobody asks for metrics here."""
        answer({})

    def leave(self, timeout_ms: int) -> None:
        """Shut down gracefully."""
        self._process.host.shutdown(timeout_ms, self._node.clock.instant)

    def stop(self) -> None:
        """The world ends processes by itself."""

    def fail(self, error: BaseException) -> None:
        """The program failed: that is what the world looks for."""
        self._failed(error)

    def fail_unless_ended(self, error: BaseException) -> None:
        """As `fail`."""
        if not isinstance(error, NotRunningError):
            self._failed(error)


class SimulatedMember(Node[bytes]):
    """A node that an engine of a simulated process runs."""

    def __init__(self, config: NodeConfig, engine: SimulatedEngine, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config)
        self.loops = self._life.loops = _ProgramLoop(loop)
        self._watch = LeaderWatch(self.loops)
        self._life.run_by(engine)


class _ProgramLoop:
    """The host runs outside of the program's loop, as with a thread of its own; see `NodeLoops`."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def to_node(self, act: LoopCall, *arguments: object) -> None:
        """At once: the host may be called at any time."""
        act(*arguments)

    def to_application(self, act: LoopCall, *arguments: object) -> None:
        """In the loop's next turn."""
        self._loop.call_soon(act, *arguments)

    async def run(self, main: NodeMain, stop: Callable[[], None]) -> None:
        """The engine has nothing to run."""
        del stop
        await main()


class _TimedHost:
    """Passes calls on to the host: at the machine's time, not the caller's, and with small pieces of snapshots."""

    def __init__(self, node: SimulatedNode, host: Host) -> None:
        self._node = node
        self._host = host

    def propose(self, *arguments: Any, **named: Any) -> None:  # noqa: ANN401 - as the host's
        self._host.propose(*arguments, **(named | {"now": self._node.clock.instant}))

    def read_index(self, now: Instant, on_outcome: Callable[[Offset | Exception], None]) -> None:
        del now
        self._host.read_index(self._node.clock.instant, on_outcome)

    def hear_commit(self, epoch: Epoch, end_offset: Offset, now: Instant) -> None:
        del now
        self._host.hear_commit(epoch, end_offset, self._node.clock.instant)

    def create_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[Any],
        on_begun: Callable[[NewSnapshot | Exception | None], None],
    ) -> None:
        def begun(taken: NewSnapshot | Exception | None) -> None:
            if isinstance(taken, NewSnapshot):
                taken.piece_records_max = PIECE_RECORDS_MAX
            on_begun(taken)

        self._host.create_snapshot(snapshot_id, serializer, begun)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the host has
        return getattr(self._host, name)
