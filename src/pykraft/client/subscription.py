"""One listener of the application and its progress through the log.

On the node's side a subscription is a listener of the host that holds its registration from each delivery until the
application has handled it; on the application's side it is a task that calls one method after the other. So a slow
listener costs no memory and delays nobody else. Snapshots are read in the node's bulk lane.

Invariant: at most one call of a listener runs at a time, even if it was unregistered and registered again meanwhile.
After `Subscription.end` no further call begins, except for a delivery that had already arrived. A listener call that
waits for the end of its node, or for its own, would wait for itself. So code that waits for calls must know which are
open: from before the listener is called until it is done; tasks that it left running are no longer part of it.

Source: Kafka's ``KafkaRaftClient.ListenerContext``, ``SnapshotGenerator`` and ``SnapshotEmitter``.
"""

import asyncio
import logging
from collections.abc import AsyncIterable, Awaitable, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from inspect import isawaitable
from typing import Any, Final, Generic, Protocol, TypeVar

from pykraft import errors
from pykraft.client.leadership import LeaderAndEpoch
from pykraft.client.life import HostAccess, LoopCall, NodeLoops, OnAnswer
from pykraft.client.listener import (
    BEGIN_SHUTDOWN,
    LOAD_BOOTSTRAP,
    LOAD_SNAPSHOT,
    SAVE_SNAPSHOT,
    Listener,
    StableRecords,
    has_method,
)
from pykraft.client.reader import LOG_START, Batch, Reader, SnapshotPiece, StateReader
from pykraft.client.serde import Serde
from pykraft.client.snapshot import Snapshot, begin_snapshot
from pykraft.host.delivery import CommittedBatch, Registration
from pykraft.host.host import Host
from pykraft.host.snapshots.creation import Loader
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import Epoch, NodeId, Offset, OffsetAndEpoch


class Called(Protocol):
    """An object that calls a listener, in its own task."""

    task: asyncio.Task[None] | None


class ListenerCall:
    """One call of a listener, by its ``owner``: the block of a ``with``, and the tasks that it starts."""

    def __init__(self, owner: Called) -> None:
        self.owner = owner
        self.outer = _innermost.get()
        """The call in which this call's task was started."""
        self.is_open = True
        self._before: Token[ListenerCall | None] | None = None

    def __enter__(self) -> None:
        self._before = _innermost.set(self)

    def __exit__(self, *error: object) -> None:
        self.is_open = False
        assert self._before is not None, "it was entered"
        _innermost.reset(self._before)


_innermost: ContextVar[ListenerCall | None] = ContextVar("pykraft_listener_call", default=None)


def open_calls() -> list[ListenerCall]:
    """The calls that this code runs in and that are not done, innermost first."""
    found = []
    call = _innermost.get()
    while call is not None:
        if call.is_open:
            found.append(call)
        call = call.outer
    return found


T = TypeVar("T")

logger = logging.getLogger("pykraft")


class StateSaving(Generic[T]):
    """The snapshots of one listener."""

    def __init__(self, node: HostAccess, serde: Serde[T], failed: Callable[[Exception], None]) -> None:
        """``failed`` hears of an error beside the listener's calls; one within a call is raised."""
        self._node = node
        self._serde = serde
        self._failed = failed
        self._task: asyncio.Task[None] | None = None

    async def save(self, snapshot_id: OffsetAndEpoch, state: Callable[[], Any]) -> None:
        """Write what ``state`` returns, or begin to; if no snapshot is possible now, the node asks again later."""
        if self._task is not None:
            return  # the last one is still being written: the node asks again after as many records
        try:
            snapshot = await begin_snapshot(self._node, self._serde, snapshot_id.offset, snapshot_id.epoch)
        except errors.NotRunningError:
            raise
        except errors.UsageError as error:
            logger.warning("%s; the node asks the application again later", error)
            return
        except errors.SnapshotFailedError:  # the node has reported it, and asks again later
            return
        if snapshot is None:
            return
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(snapshot)
            records = state()
            if isawaitable(records):
                records = await records
            if isinstance(records, StableRecords):
                stack.pop_all()
                self._task = asyncio.get_running_loop().create_task(
                    self._write_beside(snapshot, records), name="pykraft snapshot"
                )
            else:
                await _write(snapshot, records)

    async def end(self) -> None:
        """Give up what is being written."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _write_beside(self, snapshot: Snapshot[T], records: StableRecords[T]) -> None:
        try:
            async with snapshot:
                await _write(snapshot, records)
        except errors.NotRunningError:
            pass  # the next start removes what the node left
        except Exception as error:  # noqa: BLE001 - whatever it is, the node ends with it
            self._failed(error)
        finally:
            self._task = None


async def _write(snapshot: Snapshot[T], records: Iterable[T] | AsyncIterable[T]) -> None:
    try:
        await snapshot.append(records)
        with suppress(errors.OutcomeUnknownError):  # the node ended: the next start finds out whether it counts
            await snapshot.freeze()
    except errors.SnapshotFailedError:  # the node has reported it, and asks again later
        return
    except errors.SnapshotTooLargeError as error:  # all replicas have this state and would all end: do not
        logger.error("%s: no snapshot is taken, and the log keeps growing", error)  # noqa: TRY400 - it is the operator's


def read_by(node: HostAccess, opened: SnapshotReader[T]) -> StateReader[T]:
    """What a listener of this node gets of a snapshot. Its errors: NotRunningError, too."""

    async def run(read: Callable[[], SnapshotPiece[T] | errors.PykraftError]) -> SnapshotPiece[T]:
        def act(host: Host, answer: OnAnswer[SnapshotPiece[T]]) -> None:
            host.read_snapshot(read, answer)

        return await node.ask(act)

    return StateReader(run, opened)


NO_LOADER: Final = f"what came before is in a snapshot now, and the listener has no method {LOAD_SNAPSHOT}"


class Owner(HostAccess, Protocol):
    """The node of a subscription; called on the application's loop."""

    loops: NodeLoops

    def call_host(self, act: Callable[[Host], object]) -> None:
        """Call the host on its loop; an exception there ends the node."""
        ...

    def listener_failed(self, error: BaseException) -> None:
        """A listener raised this error, which ends the node."""
        ...


@dataclass(frozen=True, slots=True)
class _Delivery:
    story: str
    make: LoopCall


class Subscription(Generic[T]):
    """One registration of a listener; `attach` starts it on the node's side, `start` on the application's."""

    def __init__(
        self,
        owner: Owner,
        listener: Listener[T],
        serde: Serde[T],
        *,
        from_offset: Offset | None = None,
        after: asyncio.Task[None] | None = None,
    ) -> None:
        """No call begins before the task ``after`` is done."""
        self.listener = listener
        self.task: asyncio.Task[None] | None = None
        self._owner = owner
        self._serde = serde
        self._from_offset = from_offset
        self._after = after
        self._registration: Registration | None = None
        self._applied_end_offset = from_offset or LOG_START
        self._applied_waiters: dict[asyncio.Future[bool], Offset] = {}
        self._arrived: _Delivery | None = None
        self._goodbye: _Delivery | None = None
        self._is_ending = False
        self._news = asyncio.Event()
        self._saving = StateSaving(owner, serde, self._not_saved)

    def attach(self, host: Host) -> None:
        """On the node's side: begin. Errors: UsageError for an offset that is not in the log."""
        self.check_offset(host.status.log_start_offset)
        self._registration = host.register(
            self, self._from_offset, is_held=True, loader=self._loader, on_skipped=self.on_skipped
        )
        if self._loader is None:
            self._owner.loops.to_application(self._note_applied, self._registration.next_offset)
        self._registration.release()

    def check_offset(self, log_start_offset: Offset) -> None:
        """Errors: UsageError if the log was cleaned beyond the start offset and the listener cannot load a snapshot."""
        if self._from_offset is not None and self._from_offset < log_start_offset and not self._can_load:
            raise errors.UsageError(
                f"{self.listener!r} is to begin at offset {self._from_offset}, and the log begins at "
                f"{log_start_offset}: {NO_LOADER}"
            )

    def detach(self, host: Host) -> None:
        """On the node's side: end."""
        del host
        if self._registration is not None:
            self._registration.remove()

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """On the node's side; see `pykraft.host.delivery.HostListener`."""
        self._pass_on(self._commit, batches)

    def on_skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        """On the node's side: the log no longer has these offsets; the listener continues after them."""
        self._owner.loops.to_application(self._skipped, next_offset, start_offset)

    def on_load_snapshot(self, reader: SnapshotReader[T]) -> None:
        """On the node's side; see `pykraft.host.snapshots.creation.Loader`."""
        self._pass_on(self._load_snapshot, reader)

    def on_load_bootstrap(self, reader: SnapshotReader[T]) -> None:
        """On the node's side; see `pykraft.host.snapshots.creation.Loader`."""
        self._pass_on(self._load_bootstrap, reader)

    def on_save_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """On the node's side; see `pykraft.host.snapshots.creation.Loader`."""
        self._pass_on(self._save_snapshot, snapshot_id)

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """On the node's side; see `pykraft.host.delivery.HostListener`."""
        self._pass_on(self._leader_change, LeaderAndEpoch(leader_id, epoch))

    def start(self) -> None:
        """Start calling the listener."""
        self.task = asyncio.get_running_loop().create_task(self._run(), name=f"pykraft listener {self.listener!r}")

    def begin_shutdown(self) -> None:
        """The node begins to shut down: tell the listener if it has the method."""
        method = getattr(self.listener, BEGIN_SHUTDOWN, None)
        if method is not None:
            self._goodbye = _Delivery("begin_shutdown", method)
            self._news.set()

    def end(self, *, drop: bool = False) -> None:
        """Make no more calls, except for a delivery that has arrived; ``drop`` discards that, too."""
        self._is_ending = True
        if drop:
            self._arrived = self._goodbye = None
        self._news.set()

    async def wait_applied(self, end_offset: Offset) -> bool:
        """Wait until the listener has handled everything below; False when it ended before that.

        Errors: UsageError in a call of the listener itself, which would wait for its own end.
        """
        if self._applied_end_offset >= end_offset:
            return True
        if asyncio.current_task() is self.task:
            raise errors.UsageError("a method of a listener cannot wait for a later call of the same listener")
        if self.task is None or self.task.done():
            return False
        reached: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._applied_waiters[reached] = end_offset
        try:
            return await reached
        finally:
            del self._applied_waiters[reached]

    @property
    def _can_load(self) -> bool:
        return has_method(self.listener, LOAD_SNAPSHOT)

    @property
    def _loader(self) -> Loader | None:
        """How this listener takes snapshots; None for one that starts at the log start without them."""
        # A listener that named its start offset has everything before it and must not miss what comes after. It gets a
        # loader even if it cannot load snapshots, so that it fails instead of skipping records.
        if self._from_offset is None and not self._can_load:
            return None
        return Loader(
            self._serde,
            self.on_load_snapshot,
            bootstrap=self.on_load_bootstrap if has_method(self.listener, LOAD_BOOTSTRAP) else None,
            save=self.on_save_snapshot if has_method(self.listener, SAVE_SNAPSHOT) else None,
        )

    @property
    def _is_done(self) -> bool:
        return self._is_ending and self._arrived is None and self._goodbye is None

    def _pass_on(self, act: Callable[..., None], what: object) -> None:
        assert self._registration is not None
        self._registration.hold()
        self._owner.loops.to_application(act, what)

    def _release(self, host: Host) -> None:
        del host
        assert self._registration is not None
        self._registration.release()

    def _skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        logger.warning(
            "%r misses offsets %d to %d: %s; it continues at the log start",
            self.listener,
            next_offset,
            start_offset - 1,
            NO_LOADER,
        )
        self._note_applied(start_offset)

    def _note_applied(self, end_offset: Offset) -> None:
        self._applied_end_offset = max(self._applied_end_offset, end_offset)
        for reached, wanted in self._applied_waiters.items():
            if wanted <= self._applied_end_offset and not reached.done():
                reached.set_result(True)

    def _commit(self, batches: Sequence[CommittedBatch]) -> None:
        begin = self._from_offset or LOG_START
        reader = Reader([Batch(batch, self._serde, begin) for batch in batches])
        story = f"handle_commit, given offsets {reader.base_offset} to {reader.last_offset}"
        self._arrive(_Delivery(story, partial(self._handle_commit, reader, batches[-1].end_offset)))

    def _load_snapshot(self, reader: SnapshotReader[T]) -> None:
        story = f"{LOAD_SNAPSHOT}, given the snapshot up to offset {reader.last_contained_log_offset}"
        self._arrive(_Delivery(story, partial(self._handle_load, LOAD_SNAPSHOT, reader)))

    def _load_bootstrap(self, reader: SnapshotReader[T]) -> None:
        story = f"{LOAD_BOOTSTRAP}, given the checkpoint of formatting"
        self._arrive(_Delivery(story, partial(self._handle_load, LOAD_BOOTSTRAP, reader)))

    def _save_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        story = f"{SAVE_SNAPSHOT}, asked for the snapshot up to offset {snapshot_id.offset - 1}"
        self._arrive(_Delivery(story, partial(self._handle_save, snapshot_id)))

    def _leader_change(self, leader: LeaderAndEpoch) -> None:
        story = f"handle_leader_change, given leader {leader.leader_id} of epoch {leader.epoch}"
        self._arrive(_Delivery(story, partial(self.listener.handle_leader_change, leader)))

    def _arrive(self, delivery: _Delivery) -> None:
        if self._is_ending:
            return
        self._arrived = delivery
        self._news.set()

    async def _handle_commit(self, reader: Reader[T], end_offset: Offset) -> None:
        try:
            result = self.listener.handle_commit(reader)
            if isawaitable(result):
                await result
        finally:
            reader.close()
        self._note_applied(end_offset)

    async def _handle_load(self, name: str, opened: SnapshotReader[T]) -> None:
        reader = read_by(self._owner, opened)
        try:
            method = getattr(self.listener, name, None)
            if method is None:
                raise errors.UsageError(NO_LOADER)
            result = method(reader)
            if isawaitable(result):
                await result
        finally:
            reader.close()
        self._note_applied(opened.snapshot_id.offset)

    async def _handle_save(self, snapshot_id: OffsetAndEpoch) -> None:
        await self._saving.save(snapshot_id, getattr(self.listener, SAVE_SNAPSHOT))

    def _not_saved(self, error: Exception) -> None:
        """A snapshot that was written beside the listener's calls failed; the node ends."""
        error.add_note(f"It was raised by the records of {self.listener!r} for a snapshot; the node ends.")
        self._owner.listener_failed(error)

    async def _run(self) -> None:
        """Make one call after the other; at the end, tell everybody who waits for further ones."""
        try:
            await self._make_calls()
        finally:
            for reached in self._applied_waiters:
                if not reached.done():
                    reached.set_result(False)
            await self._saving.end()

    async def _make_calls(self) -> None:
        if self._after is not None:
            await asyncio.wait([self._after])
        while True:
            await self._news.wait()
            self._news.clear()
            if self._goodbye is not None:
                goodbye, self._goodbye = self._goodbye, None
                if not await self._call(goodbye):
                    return
            if self._arrived is not None:
                delivery, self._arrived = self._arrived, None
                if not await self._call(delivery):
                    return
                self._owner.call_host(self._release)
                if self._news.is_set():
                    await asyncio.sleep(0)  # a listener that catches up on a long log must not block the loop
            if self._is_done:
                return

    async def _call(self, delivery: _Delivery) -> bool:
        """Make one call; returns whether to call the listener again. An error ends the node."""
        task = asyncio.current_task()
        assert task is not None
        try:
            with ListenerCall(self):
                result = delivery.make()
                if isawaitable(result):
                    await _finished(result)
        except asyncio.CancelledError as error:
            # Our own task was cancelled. Otherwise the listener raised CancelledError itself, which is an error.
            if task.cancelling():
                raise
            fault: Exception = errors.UsageError(
                "the listener's call was cancelled before it had handled what it was given"
            )
            fault.__cause__ = error
        except Exception as error:  # noqa: BLE001 - whatever it is, the node ends with it
            fault = error
        else:
            return not task.cancelling()  # a listener may swallow its cancellation: do not call it again
        fault.add_note(f"It was raised by {self.listener!r} in {delivery.story}; the node ends.")
        self._owner.listener_failed(fault)
        return False


async def _finished(result: Awaitable[object]) -> None:
    await result
