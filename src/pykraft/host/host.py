"""One node without an event loop: frames, finished storage jobs and the time come in; effects of the core go out.

The server and the simulator are adapters of this class: they bring the inputs and carry out what it asks of `Ports`.
All calls come from one thread and carry everything that the host needs, so its inputs determine a run. Invariant:
nothing happens after `Ports.stop`.

`Stepping` runs the core's steps one at a time, and carries out each before the next begins. Invariant: no step begins
within another. A listener that proposes, or a send that fails at once, puts an event into the inbox, and the running
loop takes it. After the last event, the next wake-up is the earliest deadline of the core, scrubbing, snapshots, file
removal, delivery, groups and clients. Once the inbox is closed, no step follows.

Bytes from peers never raise out of here. An AssertionError is our own bug and does. After any exception the host must
not be used any more.

Source: Kafka's ``KafkaRaftClient`` (``poll``) and ``KafkaRaftClientDriver``; KIP-595; dask's ``BaseWorker``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from pykraft.config import NodeConfig
from pykraft.core import events
from pykraft.core.effects import Effect, Report
from pykraft.core.events import AnswersProgressed
from pykraft.core.raft import Raft
from pykraft.core.status import Status
from pykraft.errors import BufferFullError, NotLeaderError, NotRunningError, UsageError
from pykraft.host.components import Components, assemble
from pykraft.host.delivery import HostListener, Registration
from pykraft.host.execute import Step, end, execute
from pykraft.host.inbound import ServeForward
from pykraft.host.inbox import Arrival
from pykraft.host.leaderless import LeaderlessReport
from pykraft.host.metrics import Metrics, read_metrics
from pykraft.host.open import Opened, open_node
from pykraft.host.ports import ConnectionId, Ports
from pykraft.host.producers import UNDECIDED_PROPOSALS_MAX, ProposalOutcome
from pykraft.host.snapshots.creation import Loader, NewSnapshot, OnSkipped
from pykraft.log.fs import Fs
from pykraft.log.lane import OrderedLane
from pykraft.security.acls import Authorizer
from pykraft.security.principal import UNKNOWN_END, RemoteEnd
from pykraft.snapshot.writer import Serializer
from pykraft.types import Buffer, Epoch, Instant, Io, NodeId, Offset, OffsetAndEpoch, Uuid


class _Part(Protocol):
    """A component with deadlines of its own."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When its `poll` has something to do (mono ms)."""


class Stepping:
    """Connects the core, once it runs, with the components that carry out its effects."""

    def __init__(self, components: Components) -> None:
        self._components = components
        self._raft: Raft | None = None
        self._is_running = False
        self._deadline_ms: int | None = None
        clients = () if components.clients is None else (components.clients,)
        self._parts: tuple[_Part, ...] = (
            components.scrubbing,
            components.snapshots,
            components.removal,
            components.delivery,
            components.groups,
            *clients,
        )

    @property
    def raft(self) -> Raft | None:
        """The core, for inspection; None before it begins."""
        return self._raft

    def begin(self, raft: Raft, now: Instant) -> None:
        """Take the core's first step, then one for each waiting event."""
        assert self._raft is None, "a host starts once"
        self._raft = raft
        self._carry_out(raft, raft.start(now), None, now)
        self.run(now)

    def run(self, now: Instant) -> None:
        """Take a step for each waiting event; does nothing before the core begins and within a step."""
        raft, inbox = self._raft, self._components.inbox
        if raft is None or self._is_running:
            return
        if self._deadline_ms is not None and self._deadline_ms <= now.mono_ms:
            # A deadline of the core has expired. First report how far unfinished answers have come: bytes that arrived
            # or left may be a reason to wait on.
            self._tell_progress(raft, now)
        while (arrival := inbox.take()) is not None:
            self._carry_out(raft, raft.step(arrival.event, now), arrival, now)
        if not inbox.is_closed:
            components = self._components
            components.scrubbing.poll(now, raft.log.end_offset)
            components.snapshots.poll(now)
            components.removal.poll(now)
            components.delivery.poll(now.mono_ms)
            components.groups.after_step(raft.status)
            components.groups.poll(now)
            clients = components.clients
            self._deadline_ms = wake_ms = raft.next_deadline_ms()
            if clients is not None:
                clients.after_step(raft.status)
                clients.poll(now.mono_ms, now.wall_ms)
            for part in self._parts:
                other_ms = part.next_deadline_ms
                if wake_ms is None or (other_ms is not None and other_ms < wake_ms):
                    wake_ms = other_ms
            components.ports.wake_at(wake_ms)

    def _tell_progress(self, raft: Raft, now: Instant) -> None:
        """Report all answers in one event, because the core acts on its deadlines at the end of each step."""
        arriving, leaving = self._components.peers.arriving(), self._components.inbound.leaving()
        if arriving or leaving:
            event = AnswersProgressed(arriving=tuple(arriving), leaving=tuple(leaving))
            self._carry_out(raft, raft.step(event, now), None, now)

    def _carry_out(self, raft: Raft, effects: Sequence[Effect], arrival: Arrival | None, now: Instant) -> None:
        """Carry out all effects of one step; then tell proposers if this node no longer leads."""
        self._is_running = True
        step = Step(now=now, flushed_end_offset=raft.log.flushed_end_offset, arrival=arrival)
        for effect in effects:
            execute(self._components, effect, step)
            # The node has ended: no effect follows.
            if self._components.inbox.is_closed:
                break
        status = raft.status
        self._components.producers.lost(status.epoch if status.leads else None)
        self._components.voter_mismatch.poll(status, now)
        self._is_running = False


R = TypeVar("R")


class Host:
    """`open` creates it, `start` comes next, `close` last."""

    def __init__(
        self, ports: Ports, opened: Opened, rng: Random, core: type[Raft] = Raft, authorizer: Authorizer | None = None
    ) -> None:
        self._core = core
        self._opened = opened
        self._rng = rng
        self._recovered = opened.status
        self._components = assemble(
            ports,
            opened.config,
            key=opened.key,
            log=opened.log,
            snapshot_files=opened.snapshot_files,
            view=opened.view,
            status=lambda: self.status,
            own_problem=lambda: self._leaderless.own_problem,
            groups_from=opened.groups_from,
            rng=rng,
            authorizer=authorizer,
        )
        self._stepping = Stepping(self._components)
        self._leaderless = LeaderlessReport(ports, opened.config, opened.key, self._components.peers)

    @classmethod
    def open(
        cls,
        fs: Fs,
        ports: Ports,
        config: NodeConfig,
        *,
        rng: Random,
        core: type[Raft] = Raft,
        authorizer: Authorizer | None = None,
    ) -> Host:
        """Lock the directory and recover its files; everything is durable when this returns.

        ``core`` is another core for simulated nodes that are not ours. ``authorizer`` decides what others may do.

        Errors: ConfigError, ForeignDirectoryError, CorruptionError, StorageError: see `open_node`.
        """
        opened = open_node(fs, config, rng)
        for note in opened.notes:
            ports.report(Report(text=note))
        for alarm in opened.alarms:
            ports.report(Report(text=alarm, is_alarm=True))
        return cls(ports, opened, rng, core, authorizer)

    def start(self, now: Instant) -> None:
        """Take the first step and start the timers. Errors: UsageError when the directory contradicts the node's id."""
        self._stepping.begin(self._opened.raft(self._rng, now, self._core), now)

    def on_accepted(
        self, connection: ConnectionId, listener_name: str, _now: Instant, end: RemoteEnd = UNKNOWN_END
    ) -> None:
        """Somebody connected; ``end`` says who that is, whenever a request comes."""
        self._components.inbound.on_accepted(connection, listener_name, end)

    def on_connected(self, connection: ConnectionId, now: Instant, end: RemoteEnd = UNKNOWN_END) -> None:
        """A dial succeeded; ``end`` says who is there."""
        dialer = self._components.dialer(connection)
        if dialer is not None:
            dialer.on_connected(connection, end)
            if self._components.guard is not None:  # it may be somebody else
                self._stepping.run(now)

    def on_closed(self, connection: ConnectionId, now: Instant, *, is_refused: bool = False, reason: str = "") -> None:
        """A connection ended without `Ports.close`, or a dial failed; ``is_refused`` when nobody listens there.

        ``is_refused`` means that each address of the peer did. ``reason`` is for the operator.
        """
        dialer = self._components.dialer(connection)
        if dialer is not None:
            dialer.on_closed(connection, is_refused=is_refused, reason=reason)
        else:
            self._components.inbound.on_closed(connection)
        self._stepping.run(now)

    def answer_api_versions(self, listener: str, frame: Buffer) -> list[Buffer]:
        """The frame for a connection that is not accepted yet. Errors: ProtocolError for an unreadable header."""
        return self._components.inbound.answer_api_versions(listener, frame)

    def on_frame(self, connection: ConnectionId, frame: Buffer, now: Instant) -> None:
        """One whole frame arrived, without its length. The host keeps the buffer; do not change it any more."""
        if self._components.inbox.is_closed:
            return
        self._components.groups.now = now
        dialer = self._components.dialer(connection)
        if dialer is not None:
            dialer.on_frame(connection, frame)
        else:
            self._components.inbound.on_frame(connection, frame)
        self._stepping.run(now)

    def on_io(self, io: Io, now: Instant) -> None:
        """Every job of the ordered lane up to and including this one is durable."""
        if self._components.inbox.is_closed:
            return
        self._components.measurements.durable(io, now)
        self._components.held.persisted(io)
        self._components.removal.persisted(io)
        self._put(events.Persisted(io=io), now)

    def on_tick(self, now: Instant) -> None:
        """The time that `Ports.wake_at` asked for has come; an early or extra call does no harm."""
        self._put(events.TimerDue(), now)

    def explain(self, now: Instant) -> None:
        """Report, at growing intervals, why this node has no leader. Call it about once a second; it takes no step."""
        if self._stepping.raft is not None and not self._components.inbox.is_closed:
            self._leaderless.poll(self.status, now)

    def propose(
        self,
        values: Sequence[bytes],
        *,
        epoch: Epoch,
        now: Instant,
        on_outcome: Callable[[ProposalOutcome], None],
        on_accepted: Callable[[Offset], None] | None = None,
        is_prepared: bool = False,
        calls: int = 1,
    ) -> int:
        """Append these values as one atomic batch if this node leads ``epoch``; returns the proposal's handle.

        ``on_outcome`` is called exactly once, perhaps before this returns: with `Committed`, with `OutcomeUnknown`, or
        with `Rejected` (NotLeaderError, BufferFullError, RecordBatchTooLargeError, UsageError for a future epoch).
        ``on_accepted`` is called before that with the offset of the first value, unless the proposal is rejected at
        once. Neither may raise; both may call the host. ``is_prepared``: append nothing before `schedule_prepared`, or
        before a proposal that is not prepared. ``calls`` of the application have their values here; each counts for the
        limit of undecided proposals.

        Errors: UsageError when there are no values or one is empty; then nothing is called.
        """
        producers = self._components.producers
        proposed = producers.propose(
            values, epoch=epoch, on_outcome=on_outcome, on_accepted=on_accepted, is_prepared=is_prepared, calls=calls
        )
        if self._components.inbox.is_closed:
            producers.reject(proposed.handle, NotRunningError("the node has stopped"))
        elif producers.is_overfull:
            most = f"{UNDECIDED_PROPOSALS_MAX} proposals are already waiting for their outcome"
            producers.reject(proposed.handle, BufferFullError(f"{most}: propose again later"))
            if not is_prepared and epoch == self.status.epoch:
                # Prepared appends may be all that waits. As in the core, an append that is not prepared schedules
                # them even if it is refused; otherwise every further one would be refused too.
                self._put(events.AppendsScheduled(), now)
        else:
            self._put(proposed, now)
        return proposed.handle

    def schedule_prepared(self, now: Instant) -> None:
        """Release everything that was prepared. Errors: NotLeaderError."""
        status = self.status
        if not status.leads:
            raise NotLeaderError(None if status.leader_id == self.node_id else status.leader_id, status.epoch)
        self._put(events.AppendsScheduled(), now)

    def resign(self, epoch: Epoch, now: Instant) -> None:
        """Resign from the leadership of this epoch; does nothing for an epoch that is over.

        Errors: UsageError for an epoch that has not begun, and for the current one when this node does not lead it.
        Source: Kafka's ``RaftClient.resign``.
        """
        if self.node_id is None:
            raise UsageError("a node without an id never leads, and cannot resign")
        status = self.status
        if epoch < 0 or epoch > status.epoch:
            raise UsageError(f"epoch {epoch} has not begun: the current one is {status.epoch}")
        if epoch == status.epoch and status.leader_id != self.node_id:
            raise UsageError(f"this node does not lead epoch {epoch}, and cannot resign from it")
        self._put(events.ResignRequested(epoch=epoch), now)

    def upgrade_kraft_version(
        self,
        version: int,
        *,
        epoch: Epoch,
        now: Instant,
        on_outcome: Callable[[Exception | None], None],
        validate_only: bool = False,
    ) -> None:
        """Move the static voters into the log (``kraft.version`` 1) if this node leads ``epoch``.

        ``on_outcome`` is called exactly once, perhaps before this returns: with None when the upgrade is in the log,
        though perhaps not committed, or with ``validate_only`` when it is possible; otherwise with NotLeaderError,
        UsageError with the reason, NotRunningError, or OutcomeUnknownError when the node stopped meanwhile.

        Source: Kafka's ``RaftClient.upgradeKRaftVersion``.
        """
        handle = self._components.pending_requests.begin(on_outcome)
        if self._components.inbox.is_closed:
            self._components.pending_requests.refuse(handle)
            return
        self._put(
            events.UpgradeRequested(handle=handle, epoch=epoch, version=version, validate_only=validate_only), now
        )

    def transfer_leadership(
        self,
        target_id: NodeId,
        *,
        epoch: Epoch,
        timeout_ms: int,
        now: Instant,
        on_outcome: Callable[[Exception | None], None],
    ) -> None:
        """Transfer the leadership of ``epoch`` to this voter, which must have the whole log within ``timeout_ms``.

        The leader rejects proposals meanwhile. ``on_outcome`` is called exactly once, perhaps before this returns: with
        None when the voter leads; otherwise with NotLeaderError, UsageError for a future epoch, RefusedError with the
        reason, NotRunningError, or OutcomeUnknownError when the node stopped meanwhile.

        Source: Raft dissertation §3.10.
        """
        handle = self._components.pending_requests.begin(on_outcome)
        event = events.TransferRequested(handle=handle, epoch=epoch, target_id=target_id, timeout_ms=timeout_ms)
        if self._components.inbox.is_closed:
            self._components.pending_requests.refuse(handle)
        else:
            self._put(event, now)

    def read_index(self, now: Instant, on_outcome: Callable[[Offset | Exception], None]) -> None:
        """Ask up to which offset (exclusive) the application's state must be for a linearizable read.

        A majority confirms first that this node leads. ``on_outcome`` is called exactly once, perhaps before this
        returns: with the offset, or with NotLeaderError, BufferFullError or NotRunningError.
        """
        handle = self._components.pending_reads.begin(on_outcome)
        if self._components.inbox.is_closed:
            self._components.pending_reads.end()
        else:
            self._put(events.ReadRequested(handle=handle), now)

    def note_commit(self, epoch: Epoch, end_offset: Offset, now: Instant) -> None:
        """The leader of this epoch answered a forwarded request: everything below this offset is committed."""
        if not self._components.inbox.is_closed and (self.status.high_watermark or 0) < end_offset:
            self._put(events.CommitHeard(epoch=epoch, end_offset=end_offset), now)

    def serve_forwards(self, serve: ServeForward) -> None:
        """Offer Forward to other nodes from now on; ``serve`` answers the requests, on this thread."""
        self._components.inbound.serve_forward = serve

    def create_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[Any],
        on_begun: Callable[[NewSnapshot | Exception | None], None],
    ) -> None:
        """Start a snapshot of the application's state as of this offset (exclusive), where a committed batch ends.

        ``on_begun`` is called exactly once, perhaps before this returns, unless the node ends before: with the snapshot
        to write, with None when it is not needed or one failed a moment ago, with UsageError or SnapshotFailedError.

        Source: Kafka's ``RaftClient.createSnapshot``.
        """
        raft = self._stepping.raft
        if raft is None or self._components.inbox.is_closed:
            on_begun(NotRunningError("a snapshot is taken on a node that runs"))
        else:
            self._components.snapshot_creation.begin(raft.log, raft.voter_history, snapshot_id, serializer, on_begun)

    def read_snapshot(self, read: Callable[[], R], then: Callable[[R], None]) -> None:
        """Run ``read`` on the bulk lane, then call ``then`` with its result on this thread.

        ``then`` is called once, unless the node ends before. ``read`` runs again after a pause while the disk cannot
        read; any other exception of it ends the node.
        """
        self._components.snapshots.reading.read(read, then)

    def shutdown(self, timeout_ms: int, now: Instant) -> None:
        """Hand over leadership and leave; `Ports.stop` follows within ``timeout_ms``."""
        self._components.peers.begin_shutdown()
        self._put(events.ShutdownRequested(timeout_ms=timeout_ms), now)

    def register(
        self,
        listener: HostListener,
        from_offset: Offset | None = None,
        *,
        is_held: bool = False,
        loader: Loader | None = None,
        on_skipped: OnSkipped | None = None,
    ) -> Registration:
        """Deliver every committed batch to this listener, from the log start or an offset on, and each leader change.

        With a ``loader`` the newest snapshot replaces the records that it covers. The first batch may begin before
        ``from_offset``, if that lies within a batch. The listener may be called before this returns; with ``is_held``
        only after its registration is released. ``on_skipped`` tells what a listener without a loader misses when the
        log start passes it.

        Errors: UsageError for a listener that is already registered, and without ``loader`` for an offset below the log
        start.
        """
        return self._components.delivery.register(
            listener, from_offset, is_held=is_held, loader=loader, on_skipped=on_skipped
        )

    def metrics(self, now: Instant) -> Metrics:
        """The current values of `HOST_METRICS`; empty before `start` and after the node has ended.

        Source: Kafka's ``KafkaRaftMetrics``, which are registered from initialize to close.
        """
        raft, components = self._stepping.raft, self._components
        if raft is None or components.inbox.is_closed:
            return {}
        return read_metrics(
            raft,
            components.measurements,
            node_id=self.node_id,
            directory_id=self.directory_id,
            counts={
                "scrubbed-bytes-total": components.scrubbing.scrubbed_bytes,
                "failed-snapshots-total": components.snapshots.troubles.count,
                "undecided-proposals": len(components.producers),
                "authorization-refusals-total": 0 if components.guard is None else components.guard.refusals,
                "closed-for-violation-total": components.inbound.violations + components.peers.violations,
            },
            now=now,
        )

    def end(self) -> None:
        """Take no further step, and give every open proposal and request an outcome. The files stay open."""
        end(self._components)

    def close(self) -> None:
        """`end`, then close the files and release the lock. The ordered lane must be idle, and no read in progress.

        After `end` it may be called on another thread: it syncs, and a stalled disk then blocks only that thread.

        Errors: StorageError.
        """
        self.end()
        self._components.snapshots.close()
        self._opened.close()

    @property
    def lane(self) -> OrderedLane:
        """Performs the jobs passed to `Ports.submit`, in the thread that calls it; one at a time."""
        return self._opened.lane

    @property
    def raft(self) -> Raft | None:
        """The core, for inspection; None before `start`."""
        return self._stepping.raft

    @property
    def node_id(self) -> NodeId | None:
        """Id of this node; None for an observer without one."""
        return self._opened.node_id

    @property
    def directory_id(self) -> Uuid:
        return self._opened.directory.directory_id

    @property
    def status(self) -> Status:
        """The status after the core's last step, from any thread; before `start` what recovery found."""
        return raft.status if (raft := self._stepping.raft) else self._recovered

    @property
    def is_left_gracefully(self) -> bool | None:
        """Whether a shutdown completed before its timeout; None when there was none."""
        return self._components.ending.is_graceful

    def _put(self, event: events.Event, now: Instant) -> None:
        self._components.inbox.put(event)
        self._stepping.run(now)
