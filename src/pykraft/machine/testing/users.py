"""The users of a simulated world whose nodes run a program's state machine.

Each process runs `pykraft.machine.Replicated` as a program would, on a loop in virtual time, and its workload with it,
on the host of the simulated process. A second, plain listener tells the world how far each process has come. Requests
that one node forwards to another carry the same bytes as over TCP: frames are delayed, held back by cuts, and lost with
the process at either end. The loop has no sockets, threads or signals.

Invariants: all times that reach the host are those of the simulated machine. The loop runs only while the process does:
one that was killed leaves its tasks where they were, and one that is paused runs them when it continues. Which task
runs next depends on the world's agenda alone.

Source: ours (ADR 058); madsim and FoundationDB's Flow run the program's own tasks in simulated time, too.
"""

import asyncio
import math
import socket
import sys
from asyncio import events
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context, copy_context
from functools import partial
from random import Random
from types import CoroutineType
from typing import Any, Final, cast
from weakref import WeakSet

from pykraft.client.life import Engine, LoopCall, NodeLoops
from pykraft.client.listener import LeaderWatch
from pykraft.client.node import Node
from pykraft.config import NodeConfig
from pykraft.core.status import Status
from pykraft.errors import NotRunningError, ProtocolError, PykraftError, StorageError, UnreachableError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.host import Host
from pykraft.host.metrics import Metrics
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.machine.replicated import MachineRuntime, Replicated
from pykraft.machine.state_machine import StateMachine
from pykraft.machine.testing.recorded import (
    AppliedCall,
    CallHistory,
    RecordedNode,
    WatchedMachine,
    fail_on,
    fail_with,
    judge,
)
from pykraft.machine.testing.workload import MachineWorkload, ProcessSeat
from pykraft.protocol.messages import ApiKey
from pykraft.protocol.schema import Body
from pykraft.rpc.connection import DialedConnection
from pykraft.security.files import FileReport
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.violation import ViolationError
from pykraft.sim.invariants.watch import Watch
from pykraft.sim.machine.clock import NodeClock
from pykraft.sim.machine.node import Process, SimulatedNode
from pykraft.snapshot.writer import Serializer
from pykraft.types import Buffer, Endpoint, Epoch, Instant, NodeId, Offset, OffsetAndEpoch

Callback = Callable[..., object]
TASKS_BETWEEN_SWEEPS: Final = 64
TURNS_MAX: Final = 10_000
"""Turns within a millisecond; with more, a task waits for nothing and never ends, and neither would the world."""
CLOSED_MAX: Final = 20
"""A coroutine that is closed may wait again in its last lines: so often is it closed."""


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of one process."""

    def __init__(
        self,
        clock: NodeClock,
        later: Callable[[int, Callable[[], None]], None],
        failed: Callable[[dict[str, Any]], None],
    ) -> None:
        """``later`` calls after so many microseconds; ``failed`` hears of exceptions that no task handles."""
        self._clock = clock
        self._later = later
        self._failed = failed
        self._ready: deque[tuple[asyncio.Handle, Callback, tuple[Any, ...], Context]] = deque()
        self._is_due = False
        self._turns = 0
        """Since the clock showed another millisecond."""
        self._turned_ms = 0
        self._tasks: list[tuple[asyncio.Task[Any], Any, Context]] = []
        self._generators: WeakSet[Any] = WeakSet()
        """Asynchronous generators that have begun."""

    def abandon(self) -> None:
        """The world is over: drop the tasks that have not ended, without a word."""
        self._failed = lambda _: None
        for generator in [*self._generators]:
            # Nothing reaches it from outside, so what it waits for is closed by itself, and first.
            if isinstance(waited := generator.ag_await, CoroutineType):
                _close(waited, copy_context())
        for task, coroutine, context in self._tasks:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001 - the only way to say so
                _close(coroutine, context)
        self._tasks.clear()
        self._ready.clear()

    def time(self) -> float:
        """The machine's monotonic clock, in seconds."""
        return self._clock.instant.mono_ms / 1_000

    def call_soon(self, callback: Callback, *args: Any, context: Context | None = None) -> asyncio.Handle:  # type: ignore[override]  # noqa: ANN401
        context = copy_context() if context is None else context
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append((handle, callback, args, context))
        if not self._is_due:
            self._is_due = True
            self._later(0, self._run)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callback,
        *args: Any,  # noqa: ANN401 - as asyncio's
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callback,
        *args: Any,  # noqa: ANN401 - as asyncio's
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        context = copy_context() if context is None else context
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        due_ms = math.ceil(when * 1_000)
        if due_ms / 1_000 < when:  # the product was rounded down
            due_ms += 1
        self._plan(due_ms, handle, partial(self._ring, due_ms, handle, callback, args, context))
        return handle

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: str | None = None, context: Context | None = None) -> asyncio.Task[Any]:  # noqa: ANN401
        context = copy_context() if context is None else context
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks = [known for known in self._tasks if not known[0].done()] if self._is_crowded else self._tasks
        self._tasks.append((task, coro, context))
        return task

    @property
    def _is_crowded(self) -> bool:
        """Now and then: tasks that have ended leave the list."""
        return len(self._tasks) % TASKS_BETWEEN_SWEEPS == TASKS_BETWEEN_SWEEPS - 1

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self._failed(context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Called by asyncio; a cancelled timer rings for nobody."""

    def _plan(self, due_ms: int, handle: asyncio.TimerHandle, ring: Callable[[], None]) -> None:
        self._later(self._clock.until_us(due_ms), lambda: None if handle.cancelled() else ring())

    def _ring(
        self, due_ms: int, handle: asyncio.TimerHandle, callback: Callback, args: tuple[Any, ...], context: Context
    ) -> None:
        if self._clock.until_us(due_ms) > 0:  # the clock goes more slowly by now
            self._plan(due_ms, handle, partial(self._ring, due_ms, handle, callback, args, context))
            return
        self._ready.append((handle, callback, args, context))
        if not self._is_due:
            self._run()

    def _run(self) -> None:
        self._is_due = False
        self._count_turn()
        before = events._get_running_loop()  # noqa: SLF001 - asyncio's own way to run a loop within another
        hooks = sys.get_asyncgen_hooks()
        events._set_running_loop(self)  # noqa: SLF001
        # A generator that nobody has closed ends with its process: when it is collected is no matter of the seed.
        sys.set_asyncgen_hooks(firstiter=self._generators.add, finalizer=lambda _: None)
        try:
            for _ in range(len(self._ready)):
                handle, callback, args, context = self._ready.popleft()
                if not handle.cancelled():
                    context.run(callback, *args)
        finally:
            events._set_running_loop(before)  # noqa: SLF001
            sys.set_asyncgen_hooks(*hooks)
            if self._ready and not self._is_due:
                self._is_due = True
                self._later(0, self._run)

    def _count_turn(self) -> None:
        now_ms = self._clock.instant.mono_ms
        self._turns = self._turns + 1 if now_ms == self._turned_ms else 1
        self._turned_ms = now_ms
        if self._turns == TURNS_MAX:
            self._failed({"message": f"{TURNS_MAX} turns within a millisecond: a task goes on without waiting"})


def _close(coroutine: Any, context: Context) -> None:  # noqa: ANN401 - asyncio's coroutines have no one type
    """End a coroutine. Its last lines run in the context in which it did; what they raise concerns nobody."""
    for _ in range(CLOSED_MAX):
        with suppress(BaseException):
            context.run(coroutine.close)
        if coroutine.cr_frame is None:
            return


class SimulatedLink:
    """A `pykraft.client.remote.connection.Connection`, and a `ProcessGuest`. Create it with `open_link`."""

    def __init__(self, process: Process, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.is_open = True
        self._wire = DialedConnection("pykraft-forward")
        self._process = process
        self._news: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        """The next frame; the first one, empty, says that the dial succeeded."""
        self._connection = process.guests.dial(self, endpoint)

    def connected(self) -> None:
        self._settle(b"")

    def closed(self) -> None:
        self.is_open = False
        if not self._news.done():
            self._news.set_exception(UnreachableError(self.endpoint, "the connection is closed"))
            self._news.exception()  # nobody may be waiting

    def received(self, frame: bytes) -> None:
        self._settle(frame)

    def offers_key(self, key: ApiKey) -> bool:
        return self._wire.offers_key(key)

    async def negotiate(self, timeout_ms: int) -> None:
        """Wait for the connection, and learn which versions the other end supports. Errors: UnreachableError."""
        await self._next(timeout_ms)
        self._wire.negotiated(await self._exchange(self._wire.negotiate(), timeout_ms))

    async def ask_body(self, key: ApiKey, body: Body, *, timeout_ms: int) -> Body:
        try:
            return self._wire.answered_body(await self._exchange(self._wire.ask_body(key, body), timeout_ms))
        except ProtocolError as error:
            await self.close()
            raise UnreachableError(self.endpoint, str(error)) from error

    async def close(self) -> None:
        self.is_open = False
        self._process.guests.close(self._connection)

    async def _exchange(self, request: list[Buffer], timeout_ms: int) -> bytes:
        if not self.is_open:
            raise UnreachableError(self.endpoint, "the connection is closed")
        self._news = asyncio.get_running_loop().create_future()
        self._process.guests.send(self._connection, request)
        return await self._next(timeout_ms)

    async def _next(self, timeout_ms: int) -> bytes:
        try:
            async with asyncio.timeout(timeout_ms / 1_000):
                return await self._news
        except TimeoutError as error:
            await self.close()  # its answer may still come, so nobody may use it again
            raise UnreachableError(self.endpoint, f"no answer within {timeout_ms} ms") from error
        except BaseException:
            await self.close()
            raise

    def _settle(self, frame: bytes) -> None:
        if not self._news.done():
            self._news.set_result(frame)


async def open_link(process: Process, endpoint: Endpoint, timeout_ms: int) -> Any:  # noqa: ANN401
    """An open link, see `pykraft.machine.replicated.ConnectForward`."""
    link = SimulatedLink(process, endpoint)
    await link.negotiate(timeout_ms)
    return link


PIECE_RECORDS_MAX: Final = 3
"""Small, so that commands are applied between two pieces of a snapshot, as they are with a large state."""


class SimulatedEngine:
    """See `pykraft.client.life.Engine`."""

    not_taken_up: Final[Sequence[FileReport]] = ()
    """Nothing here is made from files."""

    def __init__(self, node: SimulatedNode, failed: Callable[[BaseException], None]) -> None:
        """``failed`` hears of the error that would end the node."""
        assert node.process is not None
        self._node = node
        self._process: Process = node.process
        self._failed = failed
        self._timed = cast("Host", _TimedHost(node, self._process.host))

    @property
    def host(self) -> Host | None:
        return self._timed

    @property
    def status(self) -> Status | None:
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
        del config, sockets, is_guest
        loop = asyncio.get_running_loop()
        begin(self._timed)
        loop.call_soon(begun)
        await loop.create_future()

    def call(self, act: Callable[[Host], object], refused: Callable[[PykraftError], object]) -> None:
        if not self._process.is_running:
            refused(NotRunningError("the node has ended"))
            return
        self._process.touch()  # a call changes the node's state, so the oracles must look at it after this event
        try:
            act(self._timed)
        except UsageError as error:
            refused(error)

    def metrics(self, answer: Callable[[Metrics], object]) -> None:
        answer({})

    def leave(self, timeout_ms: int) -> None:
        self._process.host.shutdown(timeout_ms, self._node.clock.instant)

    def stop(self) -> None:
        """The world ends processes by itself."""

    def fail(self, error: BaseException) -> None:
        """The program failed: that is what the world looks for."""
        self._failed(error)


class SimulatedMember(Node[bytes]):
    """A node that an engine of a simulated process runs."""

    def __init__(self, config: NodeConfig, engine: SimulatedEngine, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(config)
        self.loops = self._life.loops = _ProgramLoop(loop)
        self._watch = LeaderWatch(self.loops)
        self._life.run_by(cast("Engine", engine))


class _ProgramLoop(NodeLoops):
    """The host runs outside of the program's loop, as with a thread of its own, and may be called at any time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def to_application(self, act: LoopCall, *arguments: object) -> None:
        """In the loop's next turn."""
        self._loop.call_soon(act, *arguments)


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

    def note_commit(self, epoch: Epoch, end_offset: Offset, now: Instant) -> None:
        del now
        self._host.note_commit(epoch, end_offset, self._node.clock.instant)

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


SESSION_TIMEOUT_MS: Final = 2_500
"""Short, so that sessions end within a world. It is longer than twice the longest call."""


class MachineUsers:
    """See `pykraft.sim.clients.others.Users`."""

    def __init__(
        self,
        make: Callable[[], StateMachine[Any, Any]],
        workload: MachineWorkload,
        facts: Facts,
        watch: Watch,
        dice: Callable[[str], Random],
        *,
        check_every: int | None = None,
        replay: Callable[[Sequence[AppliedCall]], str | None] = lambda _: None,
    ) -> None:
        """``make`` makes the machine of a process; ``replay`` says what is wrong with what was applied in the end."""
        self.history = CallHistory(facts.clock)
        self._workload = workload
        self._check_every = check_every
        self._replay = replay
        self._make = make
        self._facts = facts
        self._watch = watch
        self._dice = dice
        self._starts = 0
        self._mains: list[asyncio.Task[None]] = []
        self._loops: list[VirtualLoop] = []
        """The loops of all processes: if one were collected, its tasks would run their last lines."""

    @property
    def acknowledged(self) -> int:
        return self.history.answered

    @property
    def acknowledged_end_offset(self) -> int:
        return self.history.answered_end_offset

    def begin(self) -> None:
        self._workload.begin(self._facts, self.history)

    def started(self, node: SimulatedNode) -> None:
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
            on_undecided=fail_with,
        )
        machine = WatchedMachine(self._make(), self.history.reference, int(node.node_id))
        replicated = Replicated(node.config, machine, check_every=self._check_every, runtime=runtime)
        _Progress(self._watch, node).listen(host)
        self._mains.append(loop.create_task(self._main(node, replicated, rng), name=f"program {node.node_id}"))
        self._loops.append(loop)

    def abandon(self) -> None:
        """Nothing of this world runs any more."""
        for loop in self._loops:
            loop.abandon()

    def over(self) -> None:
        """See `Users`. Errors: ViolationError."""
        judge(self.history.calls, self.history.reference)
        if (found := self._replay(self.history.reference.calls)) is not None:
            raise ViolationError("EqualProcesses", found)
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

    def __init__(self, watch: Watch, node: SimulatedNode) -> None:
        self._watch = watch
        self._node = node

    def listen(self, host: Host) -> None:
        """Listen from the log start on."""
        self._watch.listens(self._node, host.status.log_start_offset)
        host.register(self, is_held=True, on_skipped=self._skipped).release()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        self._watch.overheard(self._node, batches)
        self._watch.given(self._node, batches[-1].end_offset)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`: ignored."""

    def _skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        self._watch.skipped(self._node, next_offset, start_offset)
        self._watch.given(self._node, int(start_offset))
