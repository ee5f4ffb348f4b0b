"""A state machine on every node of a quorum: commands with results, from any task of the program or without a loop.

Invariant: a command is applied at most once, however often it is sent. Each error says which of three happened:
NotAppliedError and UsageError: it was certainly not applied; CommandRejectedError: the state machine got it and
rejected it; OutcomeUnknownError: it may be applied, or not.

`ThreadedReplicated` is for programs without a loop (Flask, Django, scripts): the node and the state machine live on a
loop in a thread of their own, and each call waits for its answer. Any number of threads may call at one time, and no
call waits for a thread that has ended, or that is not in this process. A program never passes a `MachineRuntime`;
`pykraft.machine.testing` does, so that the same code runs in simulated worlds.

Source: Raft dissertation §6.3 and §6.4; ours (ADR 068, ADR 086, ADR 088, ADR 092).
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import secrets
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar

from pykraft.client.arguments import whole_number
from pykraft.client.node import Node
from pykraft.client.remote.connection import ClientDialer
from pykraft.config import NodeConfig
from pykraft.errors import (
    CommandRejectedError,
    NotAppliedError,
    NotRunningError,
    OutcomeUnknownError,
    ReplicasPartedError,
    UnfinishedCommand,
    UsageError,
)
from pykraft.host.metrics import Metrics
from pykraft.machine.applier import Applier
from pykraft.machine.code_version import CodeVersions
from pykraft.machine.forwarder import BATCH_SIZE_BYTES_MAX, ConnectForward, Forwarder, ForwardServer, MachineReads
from pykraft.machine.membership import Membership
from pykraft.machine.metrics import CommandMeasurements
from pykraft.machine.own_records import LogTicks, StateCheckWriter, voter_ids
from pykraft.machine.replica import APPLIED, REFUSED, SESSION_TIMEOUT_MS, CommandAnswer, MachineReplica, NotApplied
from pykraft.machine.state_check import CHECK_EVERY_MAX, StateCheck
from pykraft.machine.state_machine import StateMachine
from pykraft.machine.submission import Submission
from pykraft.types import VoterSet

logger = logging.getLogger("pykraft")


def program_node(config: NodeConfig, own_thread: bool) -> Node[bytes]:  # noqa: FBT001 - called by position only
    """The node of a program. Errors: UsageError for an invalid configuration."""
    return Node(config, own_thread=own_thread)


def report_not_applied(what: NotApplied) -> None:
    """Log what all replicas pass over: the operator should know."""
    problem = "the operator skips it" if what.error is None else f"{type(what.error).__name__}: {what.error}"
    logger.error("the record at offset %s (epoch %s) is not applied: %s", what.offset, what.epoch, problem)
    logger.debug("where it failed", exc_info=what.error)


def report_undecided(parted: ReplicasPartedError) -> None:
    """Log that no replica can be right for sure."""
    text = "no two replicas have the same digest, so none of them ends; perhaps snapshot writes a set in any order"
    logger.error("%s: %s", text, parted)


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineRuntime:
    """The defaults are those of a program."""

    make_node: Callable[[NodeConfig, bool], Node[bytes]] = program_node
    """Makes the node; the second argument says whether it has a thread of its own."""
    connect: ConnectForward | None = None
    """Connects to other nodes; None: by TCP."""
    random_bytes: Callable[[int], bytes] = secrets.token_bytes
    """Returns so many bytes that nobody has drawn before."""
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    """Log time after which an unused session ends."""
    on_not_applied: Callable[[NotApplied], object] = report_not_applied
    """Called for what all replicas pass over."""
    on_undecided: Callable[[ReplicasPartedError], object] = report_undecided
    """Called when no two replicas have the same digest."""


PROGRAM: Final = MachineRuntime()
_USED: Final[set[int]] = set()
"""State machines that nodes of this process have fed."""


C = TypeVar("C")
R = TypeVar("R")
M = TypeVar("M", bound=StateMachine[Any, Any])
M_co = TypeVar("M_co", bound=StateMachine[Any, Any], covariant=True)
TIMEOUT_MS: Final = 10_000
"""How long `Replicated.execute` tries by default."""
TIMEOUT_MS_MAX: Final = 30_000
"""Half of a session's timeout, so that a session outlives each command of it."""
COMMAND_SIZE_BYTES_MAX: Final = 1 << 20
"""The same limit holds on every node; a larger one would hold up all others."""
FORWARD_SIZE_BYTES_MAX: Final = COMMAND_SIZE_BYTES_MAX + (1 << 16)
"""A request with such a command."""


class Replicated(Generic[M_co]):
    """A `StateMachine` on this node, the same as on all others. Use it in ``async with``, within one loop.

    With ``own_thread`` the node has its own loop, see `pykraft.client.Node`; the state machine stays on the program's.
    """

    def __init__(
        self,
        config: NodeConfig,
        machine: M_co,
        *,
        own_thread: bool = False,
        check_every: int | None = None,
        hold_at: Collection[int] = (),
        runtime: MachineRuntime = PROGRAM,
    ) -> None:
        """Open nothing yet. The simulator passes a ``runtime``.

        With ``check_every`` nodes compare digests of their states after so many commands, and a node whose state is not
        that of the majority ends with ReplicasPartedError, which names the command; see `pykraft.machine.state_check`.
        ``hold_at`` are offsets of commands that end nodes: the machine stands before each until the operator skips it
        with `pykraft machine skip`. Leave it on all nodes until each has a snapshot that ends later.

        Errors: UsageError for an invalid configuration or machine.
        """
        if not isinstance(machine, StateMachine):
            raise UsageError(f"{machine!r} is not a state machine: derive its class from pykraft.machine.StateMachine")
        self._machine = machine
        # Every replica must read all records, so only those of the state machine may get into the log.
        self.node: Node[bytes] = runtime.make_node(
            replace(config, serves_produce=False, forward_size_bytes_max=FORWARD_SIZE_BYTES_MAX), own_thread
        )
        """The node, for its address, its leader and its metrics."""
        self._replica: MachineReplica[Any, Any] = MachineReplica(
            machine, session_timeout_ms=runtime.session_timeout_ms, hold_at=hold_at
        )
        self._replica.on_not_applied = runtime.on_not_applied
        self._applier = Applier(self.node, self._replica)
        connect = runtime.connect or ClientDialer("pykraft-forward", security=config.security_between_nodes).connect
        self._forwarder = Forwarder(self.node, config.cluster_id, connect)
        self._server = ForwardServer(self.node, self._applier, config.cluster_id, self._forwarder.confirm)
        self._submission = Submission(self.node, self._applier, self._forwarder, runtime.random_bytes)
        self._submission.group_size_bytes_max = min(BATCH_SIZE_BYTES_MAX, config.raft.batch_size_bytes_max // 2)
        self._reads = MachineReads(self.node, self._applier, self._forwarder)
        self._log_ticks = LogTicks(self.node, self._applier, runtime.session_timeout_ms)
        self._versions = CodeVersions(self.node, self._applier, self._forwarder)
        self._measured = CommandMeasurements(self.node, self._replica, self._submission)
        self._has_scrapes = config.prometheus_listener is not None
        self._check_writer: StateCheckWriter | None = None
        if check_every is not None:
            whole_number("check_every", check_every, least=1, most=CHECK_EVERY_MAX)
            self._applier.check = StateCheck(
                self._replica, check_every, lambda: voter_ids(self.node), runtime.on_undecided
            )
            self._check_writer = StateCheckWriter(self.node, self._applier, self._forwarder, self._applier.check)
        self.membership: Membership = Membership(self.node, config)
        """The voters of the quorum, and changes of them."""
        self._watch: asyncio.Task[None] | None = None
        self._writers: list[asyncio.Task[None]] = []
        """Tasks that write records of the node's own: log time, and what compares replicas."""

    @staticmethod
    def in_thread(
        config: NodeConfig, machine: M, *, check_every: int | None = None, hold_at: Collection[int] = ()
    ) -> ThreadedReplicated[M]:
        """A node for programs without a loop: its calls wait, and it runs in a thread of its own."""
        return ThreadedReplicated(config, machine, check_every=check_every, hold_at=hold_at)

    async def bind(self) -> None:
        await self.node.bind()

    async def initialize(self, voters: VoterSet | Mapping[int, str] | None = None) -> None:
        """Start the node; ``async with`` does this by itself. See `pykraft.client.Node.initialize`."""
        machine = self._machine
        if id(machine) in _USED:
            text = "a state machine belongs to one node, whose log it has applied: make another one for another node"
            raise UsageError(f"this {type(machine).__name__} was used before: {text}")
        self.node.register(self._applier)
        await self.node.initialize(voters)
        _USED.add(id(machine))
        weakref.finalize(machine, _USED.discard, id(machine))
        self._server.start()
        self._watch = asyncio.get_running_loop().create_task(self._tell_of_end(), name="pykraft machine")
        writers = [self._log_ticks.run(), self._versions.run()]
        if self._check_writer is not None:
            writers.append(self._check_writer.run())
        if self._has_scrapes:
            writers.append(self._measured.publish())
        self._writers = [asyncio.get_running_loop().create_task(each, name="pykraft's records") for each in writers]

    async def __aenter__(self) -> Self:
        if self._watch is None:
            await self.initialize()
        await self.node.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.node.__aexit__(kind, error, traceback)
        finally:
            await self._end()

    async def close(self) -> None:
        """Leave at once, see `pykraft.client.Node.close`."""
        try:
            await self.node.close()
        finally:
            await self._end()

    @property
    def machine(self) -> M_co:
        """The state machine of this node, for reads that may be out of date."""
        return self._machine

    async def execute(self: Replicated[StateMachine[C, R]], command: C, *, timeout_ms: int = TIMEOUT_MS) -> R:
        """Apply this command on all replicas, once; returns its result.

        It is tried again while nodes elect a leader, until the timeout. Cancelling the wait does not take the command
        back.

        Errors: CommandRejectedError: the state machine rejected it. UsageError, BufferFullError, NotRunningError,
        NotAppliedError and any exception of the serde: it was certainly not applied, and never will be.
        OutcomeUnknownError: it may have been applied, or may still be.
        """
        if type(timeout_ms) is not int or not 1 <= timeout_ms <= TIMEOUT_MS_MAX:
            whole_number("timeout_ms", timeout_ms, least=1, most=TIMEOUT_MS_MAX)
        data = self._machine.commands.serialize(command)
        if self._replica.has_versions and self._replica.is_newer(command):
            await self._versions.wait(self._machine.version_of(command), timeout_ms)
        if type(data) is not bytes or len(data) > COMMAND_SIZE_BYTES_MAX:
            raise UsageError(f"a command takes at most {COMMAND_SIZE_BYTES_MAX} bytes: its serde made {_shown(data)}")
        del command  # thousands of calls may wait, and Python's collector stops the loop for all that they hold
        begun_s = asyncio.get_running_loop().time()
        try:
            answer = await self._submission.execute(data, begun_s, timeout_ms)
        except BaseException as error:
            self._measured.failed(begun_s, error)
            raise
        self._measured.answered(begun_s, answer)
        return self._result(answer)

    async def resume(
        self: Replicated[StateMachine[C, R]], command: UnfinishedCommand, *, timeout_ms: int = TIMEOUT_MS
    ) -> R:
        """The result of a command whose outcome was unknown, on any node: ``error.command`` of OutcomeUnknownError.

        It is applied now if it was not before, and never twice. The answer is kept while the session of the node that
        executed the command lives, and for the next 1,024 commands of that node.

        Errors: as `execute`; OutcomeUnknownError again, with ``command`` None once nobody can know any more.
        """
        whole_number("timeout_ms", timeout_ms, least=1, most=TIMEOUT_MS_MAX)
        if not isinstance(command, UnfinishedCommand):
            raise UsageError(f"{command!r} is no unfinished command: give what `OutcomeUnknownError.command` is")
        begun_s = asyncio.get_running_loop().time()
        try:
            answer = await self._submission.resume(command, begun_s, timeout_ms)
        except BaseException as error:
            self._measured.failed(begun_s, error)
            raise
        self._measured.answered(begun_s, answer)
        return self._result(answer)

    def _result(self: Replicated[StateMachine[C, R]], answer: CommandAnswer) -> R:
        verdict, value = answer
        if verdict is APPLIED:
            result: R = self._machine.results.deserialize(value)
            return result
        if verdict is REFUSED:
            raise NotAppliedError(value.decode())
        raise CommandRejectedError(value.decode())

    @asynccontextmanager
    async def read(
        self, *, stale: bool = False, max_age_ms: int | None = None, timeout_ms: int = TIMEOUT_MS
    ) -> AsyncIterator[M_co]:
        """The state machine, with every command that was applied anywhere before this call.

        A majority confirms the leader first; reads that wait at the same time share that. Between two awaits of yours
        the state does not change. With ``stale`` it is the state of this node at once, however old; with ``max_age_ms``
        it has at least what was applied that long ago, and many reads do without asking anybody.

        Errors: QuorumUnavailableError when no leader confirmed it in time; RefusedError when the leader is Kafka's or
        has no state machine; NotRunningError; UsageError.
        """
        whole_number("timeout_ms", timeout_ms, least=1, most=TIMEOUT_MS_MAX)
        if max_age_ms is not None:
            whole_number("max_age_ms", max_age_ms, least=0)
            if not stale:
                raise UsageError("max_age_ms is for stale reads: read(stale=True, max_age_ms=...)")
        if not stale or max_age_ms is not None:
            await self._reads.wait(max_age_ms or 0, timeout_ms)
        if self._applier.loading_offset is not None:
            await self._reads.wait_loaded(timeout_ms)
        yield self._machine

    async def metrics(self) -> Metrics:
        """Those of the node, of this node's commands, and of the state machine. Errors: NotRunningError."""
        return await self._measured.read()

    async def _tell_of_end(self) -> None:
        with suppress(Exception):  # whoever closes the node hears of its error
            await self.node.wait_closed()
        self._server.ended()
        await self._submission.close()
        await self._reads.close()
        await self._forwarder.close()

    async def _end(self) -> None:
        if self._watch is not None:
            for writer in self._writers:
                writer.cancel()
            await asyncio.wait([self._watch, *self._writers])


def _shown(data: object) -> str:
    return f"{len(data)} bytes" if type(data) is bytes else f"{type(data).__name__}"


T = TypeVar("T")


class ThreadedReplicated(Generic[M_co]):
    """A `StateMachine` on this node, for threads: see `Replicated.in_thread`. Use it in ``with``, or `start` it."""

    def __init__(
        self, config: NodeConfig, machine: M_co, *, check_every: int | None = None, hold_at: Collection[int] = ()
    ) -> None:
        """Open nothing yet. Errors: UsageError for an invalid configuration or machine."""
        self._replicated = Replicated(config, machine, check_every=check_every, hold_at=hold_at)
        self._thread = threading.Thread(target=self._run, name="pykraft machine", daemon=True)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._started: Future[None] = Future()
        self._process_id: int | None = None
        self._lock = threading.Lock()
        self._calls: set[Future[Any]] = set()
        """Calls that wait; guarded by the lock, as is whether the loop has ended."""
        self._is_over = False
        self._failure: BaseException | None = None

    def start(self) -> Self:
        """Start the node, and return when it runs; it is closed when the program ends, if not before.

        Errors: UsageError the second time; those of `pykraft.client.Node.initialize`.
        """
        if self._process_id is not None:
            raise UsageError("this node was started before: a node starts once, so make a new one")
        self._process_id = os.getpid()
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self._thread.join()
            raise
        atexit.register(self._at_exit)
        return self

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Shut the node down as the end of ``async with`` does, and wait for that.

        Errors: UsageError in another process, and within `read` or `call`; the error that ended a failed node.
        """
        if self._process_id is None:
            self._process_id = os.getpid()  # it can no longer be started
            return
        self._require_own_process()
        self._require_other_thread()
        atexit.unregister(self._at_exit)
        with self._lock:
            if not self._is_over and self._loop is not None:
                self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        if self._failure is not None:
            raise self._failure

    def execute(self: ThreadedReplicated[StateMachine[C, R]], command: C, *, timeout_ms: int = TIMEOUT_MS) -> R:
        """Apply this command on all replicas, once; returns its result.

        Errors: as `pykraft.machine.Replicated.execute`: UsageError, NotAppliedError, BufferFullError, NotRunningError:
        certainly not applied; CommandRejectedError: rejected by the state machine; OutcomeUnknownError: one or the
        other, also when the node was closed meanwhile.
        """
        return self.call(lambda replicated: replicated.execute(command, timeout_ms=timeout_ms))

    def resume(
        self: ThreadedReplicated[StateMachine[C, R]], command: UnfinishedCommand, *, timeout_ms: int = TIMEOUT_MS
    ) -> R:
        """See `pykraft.machine.Replicated.resume`."""
        return self.call(lambda replicated: replicated.resume(command, timeout_ms=timeout_ms))

    def read(
        self,
        query: Callable[[M_co], T],
        *,
        stale: bool = False,
        max_age_ms: int | None = None,
        timeout_ms: int = TIMEOUT_MS,
    ) -> T:
        """What ``query`` returns, given the state machine: ``node.read(lambda state: state.totals["x"])``.

        It runs in the node's thread, and the state does not change meanwhile; keep it short, and return nothing that
        changes on. Errors: as `pykraft.machine.Replicated.read`, and whatever ``query`` raises.
        """

        async def act(replicated: Replicated[M_co]) -> T:
            async with replicated.read(stale=stale, max_age_ms=max_age_ms, timeout_ms=timeout_ms) as state:
                return query(state)

        return self.call(act)

    def call(self, act: Callable[[Replicated[M_co]], Awaitable[T]]) -> T:
        """Run this with the node, in the node's thread, and wait for its result.

        ``node.call(lambda replicated: KeyValueStore(replicated).put("color", "red"))`` uses what needs a loop.

        Errors: UsageError in another process than the one that started the node, and in the node's own thread;
        NotRunningError before the start and after the end; OutcomeUnknownError when the node ended meanwhile; and
        whatever ``act`` raises.
        """
        answer = self._begin(act)
        try:
            return answer.result()
        except CancelledError:
            raise OutcomeUnknownError("the node was closed before there was an answer") from None
        finally:
            self._end(answer)  # the caller was interrupted: nobody waits any more

    @contextmanager
    def block(self, make: Callable[[Replicated[M_co]], AbstractAsyncContextManager[T]]) -> Iterator[T]:
        """Hold what is a block on a loop: ``with node.block(lambda r: lock(KeyValueStore(r), "printer")) as held:``.

        A thread cannot be cancelled: if a lease is lost, its block ends, and LeaseLostError is raised at the end of
        this one. An exception of this block ends the other one, too, so that a job that failed is given back.

        Errors: as `call`; those of the other block.
        """
        entered: Future[T] = Future()
        left: list[BaseException | None] = []
        leaving = asyncio.Event()

        async def hold(replicated: Replicated[M_co]) -> None:
            async with make(replicated) as value:
                entered.set_result(value)
                await leaving.wait()
                [error] = left
                if error is not None:
                    # A loop must not see KeyboardInterrupt and its like.
                    raise error if isinstance(error, Exception) else asyncio.CancelledError

        def leave(error: BaseException | None) -> None:
            left.append(error)
            assert self._loop is not None, "it has begun"
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(leaving.set)
            answer.result()

        answer = self._begin(hold)
        answer.add_done_callback(lambda _: entered.cancel())
        try:
            with suppress(CancelledError):
                value = entered.result()
            if entered.cancelled():
                answer.result()
            try:
                yield value
            except Exception as error:  # noqa: BLE001 - the other block raises it again
                leave(error)
            except BaseException as error:
                with suppress(Exception):
                    leave(error)
                raise
            else:
                leave(None)
        except CancelledError:
            raise OutcomeUnknownError("the node was closed before the block had ended") from None
        finally:
            self._end(answer)

    def _begin(self, act: Callable[[Replicated[M_co]], Awaitable[T]]) -> Future[T]:
        if self._process_id is None:
            raise NotRunningError("the node is not started: use it in a with block, or start it")
        self._require_own_process()
        self._require_other_thread()

        async def run() -> T:
            return await act(self._replicated)

        with self._lock:
            if self._is_over or self._loop is None:
                raise NotRunningError("the node has ended") from self._failure
            answer = asyncio.run_coroutine_threadsafe(run(), self._loop)
            self._calls.add(answer)
        return answer

    def _end(self, answer: Future[Any]) -> None:
        answer.cancel()
        with self._lock:
            self._calls.discard(answer)

    def _run(self) -> None:
        try:
            asyncio.run(self._main())
        except BaseException as error:  # noqa: BLE001 - the callers get it
            self._failure = error
        with self._lock:
            self._is_over = True
            calls = [*self._calls]
        for answer in calls:
            answer.cancel()
        if not self._started.done():
            self._started.set_exception(self._failure or NotRunningError("the node has ended"))

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._replicated:
            self._started.set_result(None)
            await self._stop.wait()

    def _require_own_process(self) -> None:
        if self._process_id != os.getpid():
            raise UsageError(
                f"the node was started in process {self._process_id}, and this process was forked from it: a node does "
                "not survive a fork, so start it in each process, after the fork, with a directory and an id of its own"
            )

    def _require_other_thread(self) -> None:
        if threading.current_thread() is self._thread:
            raise UsageError("this is the node's own thread, which a call would wait for: use the awaitable methods")

    def _at_exit(self) -> None:
        if self._process_id == os.getpid():
            with suppress(Exception):  # the program ends; its callers heard of the failure
                self.close()
