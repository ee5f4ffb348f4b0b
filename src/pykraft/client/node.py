"""A member of a quorum inside a Python program: the API that an application calls.

Invariant: every waiting call gets an answer, whatever happens to the node; a failed node reports the error that ended
it to every caller. All calls belong on one asyncio loop, the one that `Node.initialize` ran on; any thread may read the
properties.

Source: Kafka's ``RaftClient``.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Generic, Self, TypeVar, overload

from pykraft.client.arguments import INT32_MAX, Records, epoch_number, truth, whole_number
from pykraft.client.leadership import LeaderAndEpoch
from pykraft.client.life import Life, NodeLoops, OnAnswer, OwnThread
from pykraft.client.listener import LeaderWatch, Listener
from pykraft.client.proposals import Proposals, append
from pykraft.client.serde import Serde, bytes_serde, check_serde, serialized
from pykraft.client.snapshot import Snapshot, begin_snapshot
from pykraft.client.subscriptions import Subscriptions
from pykraft.config import TRANSFER_TIMEOUT_MS, TRANSFER_TIMEOUT_MS_MAX, NodeConfig
from pykraft.core.status import Status
from pykraft.errors import NotRunningError, OutcomeUnknownError, PykraftError, ShutdownTimeoutError, UsageError
from pykraft.host.host import Host
from pykraft.host.metrics import Metric, Metrics
from pykraft.host.producers import Committed
from pykraft.security.files import FileReport, FromFiles
from pykraft.server.clock import now
from pykraft.types import EPOCH_ZERO, Endpoint, Epoch, Listeners, NodeId, Offset, VoterSet

T = TypeVar("T")
R = TypeVar("R")
SHUTDOWN_TIMEOUT_MS: Final = 5_000

logger = logging.getLogger("pykraft")


class Node(Generic[T]):
    """One embedded node of a quorum. Records have type ``T``; the serde turns them into bytes.

    ``async with node:`` starts it, and shuts it down gracefully at the end. With ``own_thread`` the node has its own
    loop in its own thread, so that a program whose loop is sometimes blocked keeps its leadership. Listeners are called
    on the application's loop in both cases.
    """

    @overload
    def __init__(self: Node[bytes], config: NodeConfig, *, own_thread: bool = ...) -> None: ...

    @overload
    def __init__(self, config: NodeConfig, serde: Serde[T], *, own_thread: bool = ...) -> None: ...

    def __init__(self, config: NodeConfig, serde: Serde[Any] = bytes_serde, *, own_thread: bool = False) -> None:
        """Open nothing yet: see `initialize`. Errors: UsageError for an invalid configuration or serde."""
        if not isinstance(config, NodeConfig):
            raise UsageError(f"{config!r} is not a configuration: pykraft.client.configure makes one")
        check_serde(serde)
        self.loops: NodeLoops = OwnThread() if truth("own_thread", own_thread) else NodeLoops()
        """Where the node's loop runs; internal."""
        self._serde: Serde[T] = serde
        self._life = Life(config, self.loops, is_guest=not own_thread)
        self._proposals = Proposals(self._life)
        self._listeners: Subscriptions[T] = Subscriptions(self, serde)
        self._watch = LeaderWatch(self.loops)
        self._shutdown: asyncio.Task[None] | None = None
        self._body: asyncio.Task[Any] | None = None
        self._is_interrupted = False

    async def bind(self) -> None:
        """Listen already, so that `listeners` has the real ports; peers wait until `initialize`.

        Errors: ConfigError for an address that cannot be bound.
        """
        self._life.bind()

    async def initialize(self, voters: VoterSet | Mapping[int, str] | None = None) -> None:
        """Open the directory, recover the log, and join the quorum.

        ``voters`` replace the configured ones; a mapping has their addresses by id.

        Without ``own_thread`` recovery blocks the loop.

        Errors: UsageError the second time, and for a listener's offset that is not in the log; ConfigError;
        ForeignDirectoryError, CorruptionError or StorageError for the directory.
        """
        self._listeners.begin()
        await self._life.begin(voters, attach=self._attach, over=self._ended)
        self._listeners.start()

    async def __aenter__(self) -> Self:
        if self._body is not None:
            raise UsageError("this node is in `async with` already, whose end would close it: use it as it is")
        if not self._life.is_begun:
            await self.initialize()
        self._life.require_running()
        self._body = asyncio.current_task()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        body, self._body = self._body, None
        if self._is_interrupted and body is not None:
            # The cancellation was ours (see `_ended`): `shutdown` below raises the node's failure instead.
            body.uncancel()
        try:
            await self.shutdown()
        except ShutdownTimeoutError as late:
            logger.warning("%s", late)
        except asyncio.CancelledError:
            if not self._is_interrupted:
                raise
            await self.close()  # our own cancellation came after the block had ended

    def register(self, listener: Listener[T], from_offset: int | None = None) -> None:
        """Call this listener with everything that is committed, from the log start or from an offset on.

        Errors: UsageError for an object that is not a listener or is already registered, for an offset below 0, and for
        an offset below the log start if the listener cannot load a snapshot.
        """
        status = self._life.engine.status
        self._listeners.add(listener, from_offset, log_start_offset=None if status is None else status.log_start_offset)

    def unregister(self, listener: Listener[T]) -> None:
        """Start no further call of this listener; if registered again, it starts from scratch. Errors: UsageError."""
        self._listeners.remove(listener)

    async def propose(self, records: Records[T], *, epoch: int | None = None) -> Committed:
        """Append these records as one atomic batch, and wait until they are committed.

        ``epoch`` is the leader epoch that they belong to; by default the one that this node leads now. Cancelling the
        wait does not take the records back.

        The node's own listeners may get the records after this returns: see `wait_applied`.

        Errors: NotLeaderError names the leader; BufferFullError (also LeadershipTransferError): wait and try again;
        RecordBatchTooLargeError: split the records; OutcomeUnknownError: the node lost the leadership meanwhile, or
        ended; NotRunningError; UsageError; any exception of the serde. Only after OutcomeUnknownError may the records
        be in the log.
        """
        values = serialized(self._serde, records)
        wanted = None if epoch is None else Epoch(epoch_number(epoch))
        return await self._proposals.add(values, wanted)

    async def prepare_append(self, epoch: int, records: Records[T]) -> Offset:
        """Append one atomic batch that is held back until `schedule_prepared_append`; returns its last offset.

        Errors: as `propose`, but never OutcomeUnknownError: a listener sees what happens to the records.
        """
        return await self._append(epoch, records, is_prepared=True)

    async def schedule_prepared_append(self) -> None:
        """Release everything that was prepared. Errors: NotLeaderError, NotRunningError."""
        await self._ask(lambda host: host.schedule_prepared(now()))

    async def schedule_append(self, epoch: int, records: Records[T]) -> Offset:
        """Append one atomic batch and release all prepared ones; returns the last offset, not yet committed.

        Errors: as `prepare_append`.
        """
        return await self._append(epoch, records, is_prepared=False)

    async def wait_applied(self, listener: Listener[T], end_offset: int) -> None:
        """Wait until this listener has handled everything below ``end_offset`` (exclusive).

        After ``committed = await node.propose(...)``, this waits until a listener of the same node has handled the
        records: ``await node.wait_applied(listener, committed.end_offset)``.

        Errors: UsageError for a listener that is not registered, or is unregistered meanwhile, and within a call of the
        listener itself, which would wait for its own end; NotRunningError, also while it waits.
        """
        self._life.require_running()
        if not await self._listeners.applied(listener, whole_number("end_offset", end_offset, least=0)):
            raise await self._life.ended()

    async def resign(self, epoch: int) -> None:
        """Resign the leadership of this epoch; does nothing for an epoch that is over.

        Errors: UsageError for an epoch that has not begun, for the current one if another node leads it, and for a node
        without an id; NotRunningError.
        """
        resigned = Epoch(epoch_number(epoch))
        await self._ask(lambda host: host.resign(resigned, now()))

    async def transfer_leadership(self, to: int, *, timeout_ms: int = TRANSFER_TIMEOUT_MS) -> None:
        """Transfer the leadership from this node to this voter; returns when the voter leads.

        Appends are refused meanwhile (LeadershipTransferError). If the voter does not have the whole log after
        ``timeout_ms``, this node continues to lead.

        Errors: NotLeaderError; RefusedError says why it did not begin, or who leads instead; OutcomeUnknownError when
        this node ended meanwhile: the voter may or may not lead; NotRunningError; UsageError.
        """
        target_id = NodeId(whole_number("to", to, least=0, most=INT32_MAX))
        whole_number("timeout_ms", timeout_ms, least=0, most=TRANSFER_TIMEOUT_MS_MAX)

        def act(host: Host, answer: OnAnswer[None]) -> None:
            host.transfer_leadership(
                target_id, epoch=host.status.epoch, timeout_ms=timeout_ms, now=now(), on_outcome=answer
            )

        await self._life.ask(act, doubt=f"node {to} may or may not lead")

    async def create_snapshot(self, offset: int, epoch: int) -> Snapshot[T] | None:
        """Begin a snapshot of the application's state as of this offset (exclusive), where a committed batch ends.

        ``epoch`` is that of the last record before the offset. Returns None if the snapshot is not needed: it exists,
        is being written, or the log begins after it. The records of the snapshot have the same type as those of the
        log.

        Errors: UsageError for an offset at which no snapshot is possible; NotRunningError.
        """
        return await begin_snapshot(self._life, self._serde, offset, epoch)

    async def shutdown(self, timeout_ms: int = SHUTDOWN_TIMEOUT_MS) -> None:
        """Shut down gracefully: a leader hands over first; then wait until listeners have handled what they got.

        Listeners still at work after ``timeout_ms`` are cancelled, and have one more second to end. A listener call
        that itself calls this is neither awaited nor cancelled. Closing the files may take five seconds more if the
        disk is slow; the loop keeps running meanwhile. Cancelling the wait does not stop the shutdown; a second call
        waits for the same one.

        Errors: ShutdownTimeoutError when no other node took over in time, although this node has left; the error that
        ended a failed node; UsageError for an invalid time.
        """
        whole_number("timeout_ms", timeout_ms, least=0, most=INT32_MAX)
        if self._shutdown is None:
            self._shutdown = asyncio.get_running_loop().create_task(self._leave(timeout_ms), name="pykraft shutdown")
        with self._listeners.calls_that_wait():
            await asyncio.shield(self._shutdown)

    async def close(self) -> None:
        """Leave at once, like a killed node except that the files are closed, and cancel listeners that are at work.

        As in `shutdown`, listeners have one second to end, and closing the files five.

        Errors: the error that ended a failed node.
        """
        with self._listeners.calls_that_wait():
            self._life.stop()
            await self._life.wait_over()
            await self._listeners.done(0)
        self._raise_failure()

    async def wait_closed(self) -> None:
        """Wait until the node has ended. Errors: the error that ended a failed node."""
        await self._life.wait_over()
        self._raise_failure()

    async def metrics(self) -> Metrics:
        """The current metrics, under Kafka's names and some of ours; leader metrics only while it leads.

        Each call begins a new interval of the idle ratio. Errors: NotRunningError.
        """
        return await self._life.ask(lambda _, answer: self._life.engine.metrics(answer))

    def publish_metrics(self, metrics: Mapping[Metric, float]) -> None:
        """Add these to the node's own, until the next call; from any thread."""
        self._life.engine.published = metrics

    def add_files(self, made: FromFiles) -> None:
        """Internal, before `initialize`: look at these files of the program with those of the node."""
        self._life.engine.from_files.append(made)

    async def wait_for_leader(self) -> LeaderAndEpoch:
        """Wait until a leader is known, and return it. Errors: NotRunningError, also while it waits."""
        while True:
            self._life.require_running()
            status = self._life.engine.status
            # A leader that resigned still names itself; it is no leader to wait for.
            if status is not None and (status.leads or status.leader_id not in {None, self.node_id}):
                return LeaderAndEpoch(status.leader_id, status.epoch)
            await self._watch.wait()

    @property
    def node_id(self) -> NodeId | None:
        """Id of this node; None for an observer without an id."""
        return self._life.config.node_id

    @property
    def listeners(self) -> Listeners:
        """The addresses on which this node listens, by listener name; after `bind` with the real ports."""
        return self._life.config.listeners

    @property
    def endpoint(self) -> Endpoint:
        """The advertised address; after `bind` with the real port. Errors: UsageError when the node does not listen."""
        config = self._life.config
        endpoint = config.advertised_listeners.get(config.default_listener)
        if endpoint is None:
            raise UsageError("a node without an id only observes and has no address")
        return endpoint

    @property
    def is_running(self) -> bool:
        """Whether it has been initialized and has not ended."""
        return self._life.is_begun and not self._life.is_over

    @property
    def not_taken_up(self) -> list[FileReport]:
        """Changed files of certificates, users, keys, rules and credentials that cannot be used, each with the reason.

        The former ones stay in use, so the node serves on.
        """
        return self._life.engine.not_taken_up

    @property
    def leader_and_epoch(self) -> LeaderAndEpoch:
        """The leader that this node knows, and the epoch; (None, 0) before `initialize`."""
        status = self._life.engine.status
        if status is None:
            return LeaderAndEpoch(None, EPOCH_ZERO)
        return LeaderAndEpoch(None if self._life.is_over else status.leader_id, status.epoch)

    @property
    def high_watermark(self) -> Offset | None:
        """Everything below (exclusive) is committed; None while unknown."""
        status = self._life.engine.status
        return None if status is None else status.high_watermark

    @property
    def log_end_offset(self) -> Offset:
        """Log end offset (exclusive), committed or not. Errors: NotRunningError before `initialize`."""
        return self._status().log_end_offset

    @property
    def kraft_version(self) -> int:
        """The finalized level of the feature ``kraft.version``: 0 with static voters, 1 with voters in the log.

        Errors: NotRunningError before `initialize`.
        """
        return self._status().kraft_version

    @property
    def latest_voter_set(self) -> VoterSet:
        """The voters in force: the newest set in the log, committed or not. Errors: NotRunningError."""
        return self._status().voters

    def voter_node(self, node_id: int, listener_name: str | None = None) -> Endpoint | None:
        """The address of a voter's listener, by default the one that voters dial; None if it is not a voter."""
        found = self._status().voters.listeners(NodeId(node_id))
        return found.get(listener_name or self._life.config.default_listener)

    async def ask(self, act: Callable[[Host, OnAnswer[R]], object], *, doubt: str | None = None) -> R:
        """Internal: call the host on its loop, and wait for the answer. Errors: see `Life.ask`."""
        return await self._life.ask(act, doubt=doubt)

    def call_host(self, act: Callable[[Host], object]) -> None:
        """Internal: call the host on its loop; an exception there ends the node."""
        engine = self._life.engine

        def refused(error: PykraftError) -> None:
            # It may only say that the node has ended already.
            if not isinstance(error, NotRunningError):
                engine.fail(error)

        self.loops.to_node(engine.call, act, refused)

    def listener_failed(self, error: BaseException) -> None:
        """Internal: a listener raised this error, which ends the node."""
        if self._life.is_over and not isinstance(error, NotRunningError | OutcomeUnknownError):
            logger.error("a listener failed after the end of its node", exc_info=error)
        self.loops.to_node(self._life.engine.fail, error)

    def _status(self) -> Status:
        """The status of a node that was initialized. Errors: NotRunningError."""
        status = self._life.engine.status
        if status is None:
            self._life.require_running()
        assert status is not None
        return status

    async def _ask(self, do: Callable[[Host], None]) -> None:
        def act(host: Host, answer: OnAnswer[None]) -> None:
            do(host)
            answer(None)

        await self._life.ask(act)

    async def _append(self, epoch: int, records: Records[T], *, is_prepared: bool) -> Offset:
        values = serialized(self._serde, records)
        return await append(self._life, values, Epoch(epoch_number(epoch)), is_prepared=is_prepared)

    def _attach(self, host: Host) -> None:
        self._watch.attach(host)
        self._listeners.attach(host)

    def _ended(self) -> None:
        """The node has ended: end the listeners, and interrupt an ``async with`` block if the node failed."""
        self._watch.wake()
        self._listeners.end()
        if self._life.failure is not None and self._body is not None:
            self._is_interrupted = True
            self._body.cancel("the node failed")

    async def _leave(self, timeout_ms: int) -> None:
        deadline_s = time.monotonic() + timeout_ms / 1_000
        if self._life.is_begun and not self._life.is_over:
            self._listeners.begin_shutdown()
            self.loops.to_node(self._life.engine.leave, timeout_ms)
        else:
            self._life.stop()
        await self._life.wait_over()
        self._listeners.end()
        await self._listeners.done(max(0.0, deadline_s - time.monotonic()))
        self._raise_failure()
        host = self._life.engine.host
        if host is not None and host.is_left_gracefully is False:
            raise ShutdownTimeoutError(f"no other node led within {timeout_ms} ms; this node has left anyway")

    def _raise_failure(self) -> None:
        if self._life.failure is not None:
            raise self._life.failure
