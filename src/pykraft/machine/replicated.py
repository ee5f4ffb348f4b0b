"""A state machine on every node of a quorum: commands with results, from any task of the program.

This module is the API that an application calls. Invariant: a command is applied at most once, however often it is
sent. Each error says which of three happened: NotAppliedError and UsageError: it was certainly not applied;
CommandRejectedError: the state machine got it and rejected it; OutcomeUnknownError: it may be applied, or not.

`pykraft.machine.replica` decides what is applied, and `pykraft.machine.submission` brings commands into the log.

Source: Raft dissertation §6.3 and §6.4; ours (ADR 068).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from pykraft.client.arguments import whole_number
from pykraft.client.node import Node
from pykraft.config import NodeConfig
from pykraft.errors import CommandRejectedError, NotAppliedError, UsageError
from pykraft.machine.applier import Applier
from pykraft.machine.forward_server import ForwardServer
from pykraft.machine.forwarder import BATCH_SIZE_BYTES_MAX, Forwarder
from pykraft.machine.log_ticks import LogTicks
from pykraft.machine.membership import Membership
from pykraft.machine.reads import MachineReads
from pykraft.machine.replica import APPLIED, REFUSED, MachineReplica
from pykraft.machine.runtime import PROGRAM, ForwardDialer, MachineRuntime
from pykraft.machine.state_check import CHECK_EVERY_MAX, StateCheck
from pykraft.machine.state_check_writer import StateCheckWriter, voter_ids
from pykraft.machine.state_machine import StateMachine
from pykraft.machine.submission import Submission
from pykraft.rpc.context import RpcContext
from pykraft.types import VoterSet

if TYPE_CHECKING:  # it stands on this module
    from pykraft.machine.threaded import ThreadedReplicated

C = TypeVar("C")
R = TypeVar("R")
M = TypeVar("M", bound=StateMachine[Any, Any])
M_co = TypeVar("M_co", bound=StateMachine[Any, Any], covariant=True)
TIMEOUT_MS: Final = 10_000
"""How long `Replicated.execute` tries by default."""
TIMEOUT_MS_MAX: Final = 30_000
"""Half of a session's timeout, so that a session outlives each command of it."""
COMMAND_SIZE_BYTES_MAX: Final = 60_000
"""A command that is forwarded fits into a request of 64 KiB; the same limit holds on every node."""


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
        skip_offsets: Collection[int] = (),
        runtime: MachineRuntime = PROGRAM,
    ) -> None:
        """Open nothing yet. The simulator passes a ``runtime``.

        With ``check_every`` nodes compare digests of their states after so many commands, and a node whose state is not
        that of the majority ends with ReplicasPartedError, which names the command; see `pykraft.machine.state_check`.
        ``skip_offsets`` are commands in the log that no node can read, the same on all nodes: they are not applied.

        Errors: UsageError for an invalid configuration or machine.
        """
        if not isinstance(machine, StateMachine):
            raise UsageError(f"{machine!r} is not a state machine: derive its class from pykraft.machine.StateMachine")
        self._machine = machine
        # Every replica must read all records, so only those of the state machine may get into the log.
        self.node: Node[bytes] = runtime.make_node(replace(config, serves_produce=False), own_thread)
        """The node, for its address, its leader and its metrics."""
        self._replica: MachineReplica[Any, Any] = MachineReplica(
            machine, session_timeout_ms=runtime.session_timeout_ms, skipped_offsets=skip_offsets
        )
        self._replica.on_not_applied = runtime.on_not_applied
        self._applier = Applier(self.node, self._replica)
        context = RpcContext(
            cluster_id=config.cluster_id,
            topic_name=config.topic_name,
            topic_id=config.topic_id,
            default_listener=config.default_listener.upper(),
        )
        self._forwarder = Forwarder(self.node, context, runtime.connect or ForwardDialer().connect)
        self._server = ForwardServer(self.node, self._applier, config.cluster_id, self._forwarder.confirm)
        self._submission = Submission(self.node, self._applier, self._forwarder, runtime.random_bytes)
        self._submission.group_size_bytes_max = min(BATCH_SIZE_BYTES_MAX, config.raft.batch_size_bytes_max // 2)
        self._reads = MachineReads(self.node, self._applier, self._forwarder)
        self._log_ticks = LogTicks(self.node, self._applier, runtime.session_timeout_ms)
        self._check_writer: StateCheckWriter | None = None
        if check_every is not None:
            whole_number("check_every", check_every, least=1, most=CHECK_EVERY_MAX)
            self._applier.check = StateCheck(self._replica, check_every, lambda: voter_ids(self.node))
            self._check_writer = StateCheckWriter(self.node, self._applier, self._forwarder, self._applier.check)
        self.membership: Membership = Membership(self.node, config)
        """The voters of the quorum, and changes of them."""
        self._watch: asyncio.Task[None] | None = None
        self._writers: list[asyncio.Task[None]] = []
        """Tasks that write records of the node's own: log time, and what compares replicas."""

    @staticmethod
    def in_thread(
        config: NodeConfig, machine: M, *, check_every: int | None = None, skip_offsets: Collection[int] = ()
    ) -> ThreadedReplicated[M]:
        """A node for programs without a loop: its calls wait, and it runs in a thread of its own."""
        from pykraft.machine.threaded import ThreadedReplicated  # it stands on this class

        return ThreadedReplicated(config, machine, check_every=check_every, skip_offsets=skip_offsets)

    async def bind(self) -> None:
        """See `pykraft.client.Node.bind`."""
        await self.node.bind()

    async def initialize(self, voters: VoterSet | Mapping[int, str] | None = None) -> None:
        """Start the node; ``async with`` does this by itself. See `pykraft.client.Node.initialize`."""
        self.node.register(self._applier)
        await self.node.initialize(voters)
        self._server.start()
        self._watch = asyncio.get_running_loop().create_task(self._tell_of_end(), name="pykraft machine")
        self._writers = [
            asyncio.get_running_loop().create_task(self._log_ticks.run(), name="pykraft machine's log time")
        ]
        if self._check_writer is not None:
            self._writers.append(asyncio.get_running_loop().create_task(self._check_writer.run(), name="pykraft check"))

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
        if type(data) is not bytes or len(data) > COMMAND_SIZE_BYTES_MAX:
            raise UsageError(f"a command takes at most {COMMAND_SIZE_BYTES_MAX} bytes: its serde made {_told(data)}")
        if not self._forwarder.is_needed:  # so that a command that is refused concerns its caller alone
            self._replica.read_ahead((data,))
        verdict, value = await self._submission.execute(data, timeout_ms)
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

    async def _tell_of_end(self) -> None:
        """Tell every waiting caller when the node has ended."""
        with suppress(Exception):  # whoever closes the node hears of its error
            await self.node.wait_closed()
        self._server.ended()
        self._submission.ended()
        await self._reads.close()
        await self._forwarder.close()

    async def _end(self) -> None:
        if self._watch is not None:
            for writer in self._writers:
                writer.cancel()
            await asyncio.wait([self._watch, *self._writers])


def _told(data: object) -> str:
    return f"{len(data)} bytes" if type(data) is bytes else f"{type(data).__name__}"
