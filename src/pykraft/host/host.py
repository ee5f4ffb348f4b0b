"""One node without a loop: what arrives goes in here, and what the core decides is carried out.

The server and the simulator are adapters of this class: they bring frames, finished storage jobs and the time, and
do what it asks of `Ports`. Everything is called on one thread, and everything it needs is in its arguments, so a run
is decided by its inputs. Invariant: after `Ports.stop` nothing happens any more.

Foreign bytes never raise out of here; an AssertionError is our own bug and does. After any exception the host is of
no more use.

Source: Kafka's ``KafkaRaftClient`` and ``KafkaRaftClientDriver``; KIP-595.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeVar

from pykraft.config import NodeConfig
from pykraft.core.events import (
    AppendsScheduled,
    Event,
    Persisted,
    ResignRequested,
    ShutdownRequested,
    TimerDue,
    TransferRequested,
    UpgradeRequested,
)
from pykraft.core.quarantine import Quarantine
from pykraft.core.raft import Raft
from pykraft.errors import BufferFullError, NotLeaderError, NotRunningError, UsageError
from pykraft.host.delivery import Listener, Registration
from pykraft.host.execute import LEADER, end
from pykraft.host.loading import Loader, OnSkipped
from pykraft.host.metrics import Metrics, read_metrics
from pykraft.host.open import Opened, open_node
from pykraft.host.parts import assemble
from pykraft.host.ports import ConnectionId, Ports
from pykraft.host.producers import UNDECIDED_PROPOSALS_MAX, Outcome
from pykraft.host.stepping import Stepping
from pykraft.host.taking import TakenSnapshot
from pykraft.log.fs import Fs
from pykraft.log.lane import OrderedLane
from pykraft.snapshot.writer import Serializer
from pykraft.types import Buffer, Epoch, Instant, Io, NodeId, Offset, OffsetAndEpoch, Uuid, VoterSet

R = TypeVar("R")


class Host:
    """Made by `open`; `start` comes next, `close` last."""

    def __init__(self, ports: Ports, opened: Opened, rng: Random) -> None:
        self._opened = opened
        self._rng = rng
        self._parts = assemble(
            ports,
            opened.config,
            key=opened.key,
            log=opened.log,
            snapshot_files=opened.snapshot_files,
            view=opened.view,
            leader=lambda: raft.serving_leader if (raft := self._stepping.raft) else None,
            membership=lambda: (self.voters, self.kraft_version),
        )
        self._stepping = Stepping(self._parts)

    @classmethod
    def open(cls, fs: Fs, ports: Ports, config: NodeConfig, *, rng: Random) -> Host:
        """Lock the directory and recover what is in it; all of it is durable when this returns.

        Errors: ConfigError, ForeignDirectoryError, CorruptionError, StorageError: see `open_node`.
        """
        opened = open_node(fs, config, rng)
        for note in opened.notes:
            ports.report(note)
        for alarm in opened.alarms:
            ports.report(alarm, is_alarm=True)
        return cls(ports, opened, rng)

    def start(self, now: Instant) -> None:
        """Take the first step; the timers begin. Errors: UsageError when the directory contradicts the node's id."""
        self._stepping.begin(self._opened.raft(self._rng, now), now)

    def on_accepted(self, connection: ConnectionId, listener_name: str, now: Instant) -> None:
        """Somebody connected to this listener."""
        del now
        self._parts.inbound.on_accepted(connection, listener_name)

    def on_connected(self, connection: ConnectionId, now: Instant) -> None:
        """A dial succeeded."""
        del now
        self._parts.peers.on_connected(connection)

    def on_closed(self, connection: ConnectionId, now: Instant) -> None:
        """A connection ended that `Ports.close` was not called for, or a dial failed."""
        if self._parts.peers.owns(connection):
            self._parts.peers.on_closed(connection)
            self._stepping.run(now)
        else:
            self._parts.inbound.on_closed(connection)
            self._stepping.run(now)

    def on_frame(self, connection: ConnectionId, frame: Buffer, now: Instant) -> None:
        """One whole frame came, without its length. The buffer is kept and must not be changed any more."""
        if self._parts.inbox.is_closed:
            return
        if self._parts.peers.owns(connection):
            self._parts.peers.on_frame(connection, frame)
        else:
            self._parts.inbound.on_frame(connection, frame)
        self._stepping.run(now)

    def on_io(self, io: Io, now: Instant) -> None:
        """Every job of the ordered lane up to and including this one is durable."""
        if self._parts.inbox.is_closed:
            return
        self._parts.measurements.durable(io, now)
        self._parts.held.persisted(io)
        self._parts.removal.persisted(io)
        self._put(Persisted(io=io), now)

    def on_tick(self, now: Instant) -> None:
        """The time has come that `Ports.wake_at` asked for; too early or too often does no harm."""
        self._put(TimerDue(), now)

    def propose(
        self,
        values: Sequence[bytes],
        *,
        epoch: Epoch,
        now: Instant,
        on_outcome: Callable[[Outcome], None],
        on_accepted: Callable[[Offset], None] | None = None,
        is_prepared: bool = False,
    ) -> int:
        """Append these values as one atomic batch, if this node leads ``epoch``; returns the proposal's handle.

        ``on_outcome`` is called exactly once, perhaps before this returns: with `Committed`, with `OutcomeUnknown`,
        or with `Rejected` (NotLeaderError, BufferFullError, RecordBatchTooLargeError, UsageError for a future epoch).
        ``on_accepted`` is called before that with the offset of the first value, unless the proposal is rejected at
        once. Neither may raise; both may call back. ``is_prepared``: what is appended goes nowhere before
        `schedule_prepared`, or before a proposal that is not prepared.

        Errors: UsageError when there are no values or one is empty; then nothing is called.
        """
        producers = self._parts.producers
        proposed = producers.propose(
            values, epoch=epoch, on_outcome=on_outcome, on_accepted=on_accepted, is_prepared=is_prepared
        )
        if self._parts.inbox.is_closed:
            producers.reject(proposed.handle, NotRunningError("the node has stopped"))
        elif producers.is_overfull:
            most = f"{UNDECIDED_PROPOSALS_MAX} proposals wait for their outcome already"
            producers.reject(proposed.handle, BufferFullError(f"{most}: propose again later"))
            if not is_prepared and epoch == self.epoch:
                # Prepared appends may be all that waits. As in the core, an append that is not prepared schedules
                # them even if it is refused; otherwise every further one would be refused too.
                self._put(AppendsScheduled(), now)
        else:
            self._put(proposed, now)
        return proposed.handle

    def schedule_prepared(self, now: Instant) -> None:
        """Let go of everything that was prepared. Errors: NotLeaderError."""
        if self.role != LEADER:
            leader_id = self.leader_id
            raise NotLeaderError(None if leader_id == self.node_id else leader_id, self.epoch)
        self._put(AppendsScheduled(), now)

    def resign(self, epoch: Epoch, now: Instant) -> None:
        """Give up the leadership of this epoch; of one that is over it is given up already.

        Errors: UsageError for an epoch that has not begun, and for the present one when this node does not lead it.
        Source: Kafka's ``RaftClient.resign``.
        """
        if self.node_id is None:
            raise UsageError("a node without an id never leads, and cannot resign")
        if epoch < 0 or epoch > self.epoch:
            raise UsageError(f"epoch {epoch} has not begun: the present one is {self.epoch}")
        if epoch == self.epoch and self.leader_id != self.node_id:
            raise UsageError(f"this node does not lead epoch {epoch}, and cannot resign from it")
        self._put(ResignRequested(epoch=epoch), now)

    def upgrade_kraft_version(
        self,
        version: int,
        *,
        epoch: Epoch,
        now: Instant,
        on_outcome: Callable[[Exception | None], None],
        validate_only: bool = False,
    ) -> None:
        """Move the static voters into the log (``kraft.version`` 1), if this node leads ``epoch``.

        ``on_outcome`` is called exactly once, perhaps before this returns: with None when it is in the log, though
        perhaps not committed, or with ``validate_only`` could be; else with NotLeaderError, UsageError with the reason,
        NotRunningError, or OutcomeUnknownError when the node stopped meanwhile.

        Source: Kafka's ``RaftClient.upgradeKRaftVersion``.
        """
        handle = self._parts.wishes.begin(on_outcome)
        if self._parts.inbox.is_closed:
            self._parts.wishes.refuse(handle)
            return
        self._put(UpgradeRequested(handle=handle, epoch=epoch, version=version, validate_only=validate_only), now)

    def transfer_leadership(
        self,
        target_id: NodeId,
        *,
        epoch: Epoch,
        timeout_ms: int,
        now: Instant,
        on_outcome: Callable[[Exception | None], None],
    ) -> None:
        """Let this voter lead, if this node leads ``epoch``; it waits ``timeout_ms`` for the voter to have its log.

        Meanwhile nothing is accepted. ``on_outcome`` is called exactly once, perhaps before this returns: with None
        when the voter leads; else with NotLeaderError, UsageError for a future epoch, RefusedError with the reason,
        NotRunningError, or OutcomeUnknownError when the node stopped meanwhile.

        Source: Raft dissertation §3.10.
        """
        handle = self._parts.wishes.begin(on_outcome)
        event = TransferRequested(handle=handle, epoch=epoch, target_id=target_id, timeout_ms=timeout_ms)
        if self._parts.inbox.is_closed:
            self._parts.wishes.refuse(handle)
        else:
            self._put(event, now)

    def create_snapshot(
        self,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[Any],
        on_begun: Callable[[TakenSnapshot | Exception | None], None],
    ) -> None:
        """Begin a snapshot of the application's state as of this offset (exclusive), where a committed batch ends.

        ``on_begun`` is called exactly once, perhaps before this returns, unless the node ends before: with the snapshot
        to write; with None when it is not needed; or with UsageError.

        Source: Kafka's ``RaftClient.createSnapshot``.
        """
        raft = self._stepping.raft
        if raft is None or self._parts.inbox.is_closed:
            on_begun(NotRunningError("a snapshot is taken on a node that runs"))
        else:
            self._parts.taking.begin(raft, snapshot_id, serializer, on_begun)

    def read(self, read: Callable[[], R], then: Callable[[R], None]) -> None:
        """Run ``read`` where files are read, off this thread, and ``then`` here with what it returned.

        ``then`` is called once, unless the node ends before; what ``read`` raises ends it.
        """
        self._parts.ports.submit_read(read, then)

    def shutdown(self, timeout_ms: int, now: Instant) -> None:
        """Hand over and leave; `Ports.stop` follows within ``timeout_ms``."""
        self._put(ShutdownRequested(timeout_ms=timeout_ms), now)

    def register(
        self,
        listener: Listener,
        from_offset: Offset | None = None,
        *,
        is_held: bool = False,
        loader: Loader | None = None,
        on_skipped: OnSkipped | None = None,
    ) -> Registration:
        """Give this listener every committed batch, from the log start or from an offset on, and each leader change.

        With a ``loader`` the newest snapshot comes in the place of what it holds. The first batch may begin before
        ``from_offset``, if that is within a batch. A listener may be called before this returns; one that ``is_held``
        only when its registration is released. ``on_skipped`` is told what a listener without a loader misses when
        the log is cleaned before it was given it.

        Errors: UsageError for a listener that is registered already, and without ``loader`` for an offset below the log
        start.
        """
        return self._parts.delivery.register(
            listener, from_offset, is_held=is_held, loader=loader, on_skipped=on_skipped
        )

    def metrics(self, now: Instant) -> Metrics:
        """What `HOST_METRICS` lists, as it is now; empty before `start` and once the node has ended.

        Source: Kafka's ``KafkaRaftMetrics``, which are registered from initialize to close.
        """
        raft, parts = self._stepping.raft, self._parts
        if raft is None or parts.inbox.is_closed:
            return {}
        return read_metrics(
            raft,
            parts.measurements,
            node_id=self.node_id,
            directory_id=self.directory_id,
            undecided_proposals=len(parts.producers),
            violations=parts.inbound.violations + parts.peers.violations,
            scrubbed_bytes=parts.scrubbing.scrubbed_bytes,
            now=now,
        )

    def end(self) -> None:
        """Take no further step: every proposal and every wish without an outcome gets one. The files stay open."""
        end(self._parts)

    def close(self) -> None:
        """`end`, close the files and give up the lock. The ordered lane must be idle, and no read under way.

        After `end` it may be called on another thread: it syncs, and a stalled disk then holds up only that thread.

        Errors: StorageError.
        """
        self.end()
        self._parts.snapshots.close()
        self._opened.close()

    @property
    def lane(self) -> OrderedLane:
        """Carries out the jobs that went to `Ports.submit`, in whatever thread calls it; one at a time."""
        return self._opened.lane

    @property
    def raft(self) -> Raft | None:
        """The core, to look at; None before `start`."""
        return self._stepping.raft

    @property
    def node_id(self) -> NodeId | None:
        """Id of this node; None for an observer without one."""
        return self._opened.node_id

    @property
    def directory_id(self) -> Uuid:
        """Directory id of this node's log directory."""
        return self._opened.directory.directory_id

    @property
    def epoch(self) -> Epoch:
        """The present epoch; before `start` the one that the disk remembers."""
        if (raft := self._stepping.raft) is not None:
            return raft.epoch
        election = self._opened.election
        return max(self._opened.view.last_epoch, election.epoch if election else Epoch(0))

    @property
    def leader_id(self) -> NodeId | None:
        """Leader of the present epoch as far as known."""
        return raft.leader_id if (raft := self._stepping.raft) else None

    @property
    def voters(self) -> VoterSet:
        """The voter set in force; before `start` the configured one."""
        return raft.voters if (raft := self._stepping.raft) else self._opened.config.voters

    @property
    def kraft_version(self) -> int:
        """The level of the feature ``kraft.version`` in force; before `start` 0."""
        return raft.membership.kraft_version if (raft := self._stepping.raft) else 0

    @property
    def role(self) -> str:
        """Name of the state as in Kafka's current-state metric; before `start` it is ``unattached``."""
        return raft.role if (raft := self._stepping.raft) else "unattached"

    @property
    def is_left_gracefully(self) -> bool | None:
        """Whether a shutdown came to its end before its time was over; None when there was none."""
        return self._parts.ending.is_graceful

    @property
    def high_watermark(self) -> Offset | None:
        """Everything below (exclusive) is committed; None while unknown."""
        return raft.high_watermark if (raft := self._stepping.raft) else None

    @property
    def quarantine(self) -> Quarantine | None:
        """What this node lost of its log and does not have back yet; None for a sound one."""
        return self._opened.view.quarantine

    @property
    def log_end_offset(self) -> Offset:
        """End of the log (exclusive), with what is still being written."""
        return self._opened.view.end_offset

    @property
    def log_start_offset(self) -> Offset:
        """First offset that the log can hold."""
        return self._opened.view.start_offset

    def _put(self, event: Event, now: Instant) -> None:
        self._parts.inbox.put(event)
        self._stepping.run(now)
