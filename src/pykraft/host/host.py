"""One node without a loop: what arrives goes in here, and what the core decides is carried out.

The server and the simulator are adapters of this class: they bring frames, finished storage jobs and the time, and
do what it asks of `Ports`. Everything is called on one thread, and everything it needs is in its arguments, so a run
is decided by its inputs. Invariants:

- One step of the core at a time. Whatever arrives during one, because a listener proposes or a send fails at once,
  waits in the inbox, and its step follows.
- After each call the next wake-up is what the core asks for.
- After `Ports.stop` nothing happens any more.

Foreign bytes never raise out of here; an AssertionError is our own bug and does.

Source: Kafka's ``KafkaRaftClient`` (poll) and ``KafkaRaftClientDriver``; KIP-595.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from pykraft.config import NodeConfig
from pykraft.core.effects import Effect
from pykraft.core.events import Event, Persisted, ResignRequested, ShutdownRequested, TimerDue
from pykraft.core.raft import Raft
from pykraft.errors import BufferFullError, UsageError
from pykraft.host.delivery import Listener
from pykraft.host.describe_cluster import describe_cluster
from pykraft.host.execute import LEADER, Step, execute
from pykraft.host.inbox import NO_BATCHES
from pykraft.host.open import Opened, open_node
from pykraft.host.parts import assemble
from pykraft.host.ports import ConnectionId, Ports
from pykraft.host.producers import UNDECIDED_PROPOSALS_MAX, Outcome
from pykraft.host.recent import Batch
from pykraft.log.fs import Fs
from pykraft.log.lane import OrderedLane
from pykraft.protocol.schema import Body
from pykraft.types import Buffer, Epoch, Instant, Io, NodeId, Offset


class Host:
    """Made by `open`; `start` comes next, `close` last."""

    def __init__(self, ports: Ports, opened: Opened, rng: Random) -> None:
        self._ports = ports
        self._opened = opened
        self._rng = rng
        self._raft: Raft | None = None
        self._is_stepping = False
        self._is_stopped = False
        self._parts = assemble(
            ports,
            opened.config,
            node_id=opened.node_id,
            log=opened.log,
            start_offset=opened.view.start_offset,
            end_offset=opened.view.end_offset,
            describe_cluster=self._describe_cluster,
            stop=self._stop,
        )

    @classmethod
    def open(cls, fs: Fs, ports: Ports, config: NodeConfig, *, rng: Random) -> Host:
        """Lock the directory and recover what is in it; all of it is durable when this returns.

        Errors: ConfigError, ForeignDirectoryError, CorruptionError, StorageError: see `open_node`.
        """
        opened = open_node(fs, config, rng)
        for note in opened.notes:
            ports.report(note)
        return cls(ports, opened, rng)

    def start(self, now: Instant) -> None:
        """Take the first step; the timers begin. Errors: UsageError when the directory contradicts the node's id."""
        assert self._raft is None, "a host starts once"
        self._raft = self._opened.raft(self._rng, now)
        self._carry_out(self._raft, self._raft.start(now), NO_BATCHES, now)
        self._run(now)

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
            self._run(now)
        else:
            self._parts.inbound.on_closed(connection)

    def on_frame(self, connection: ConnectionId, frame: Buffer, now: Instant) -> None:
        """One whole frame came, without its length. The buffer is kept and must not be changed any more."""
        if self._is_stopped:
            return
        if self._parts.peers.owns(connection):
            self._parts.peers.on_frame(connection, frame)
        else:
            self._parts.inbound.on_frame(connection, frame)
        self._run(now)

    def on_io(self, io: Io, now: Instant) -> None:
        """Every job of the ordered lane up to and including this one is durable."""
        if self._is_stopped:
            return
        self._parts.held.persisted(io)
        self._put(Persisted(io=io), now)

    def on_tick(self, now: Instant) -> None:
        """The time has come that `Ports.wake_at` asked for; too early or too often does no harm."""
        self._put(TimerDue(), now)

    def propose(
        self, values: Sequence[bytes], *, epoch: Epoch, now: Instant, on_outcome: Callable[[Outcome], None]
    ) -> int:
        """Append these values as one atomic batch, if this node leads ``epoch``; returns the proposal's handle.

        ``on_outcome`` is called exactly once, perhaps before this returns: with `Committed`, with `OutcomeUnknown`,
        or with `Rejected` (NotLeaderError, BufferFullError, UsageError for a future epoch or too large a batch).
        It must not raise; it may call back.

        Errors: UsageError when there are no values or one is empty; then ``on_outcome`` is never called.
        """
        producers = self._parts.producers
        proposed = producers.propose(values, epoch=epoch, on_outcome=on_outcome)
        if self._is_stopped:
            producers.reject(proposed.handle, UsageError("the node has stopped"))
        elif producers.is_overfull:
            most = f"{UNDECIDED_PROPOSALS_MAX} proposals wait for their outcome already"
            producers.reject(proposed.handle, BufferFullError(f"{most}: propose again later"))
        else:
            self._put(proposed, now)
        return proposed.handle

    def resign(self, epoch: Epoch, now: Instant) -> None:
        """Give up the leadership of this epoch; nothing happens when this node does not have it."""
        self._put(ResignRequested(epoch=epoch), now)

    def shutdown(self, timeout_ms: int, now: Instant) -> None:
        """Hand over and leave; `Ports.stop` follows within ``timeout_ms``."""
        self._put(ShutdownRequested(timeout_ms=timeout_ms), now)

    def register(self, listener: Listener) -> None:
        """Give this listener every committed batch from the log start on, and each leader change."""
        self._parts.delivery.register(listener)

    def close(self) -> None:
        """Close the files and give up the lock. The ordered lane must be idle, and no read under way.

        Every proposal without an outcome gets one.

        Errors: StorageError.
        """
        self._is_stopped = True
        self._parts.producers.end()
        self._opened.close()

    @property
    def lane(self) -> OrderedLane:
        """Carries out the jobs that went to `Ports.submit`, in whatever thread calls it; one at a time."""
        return self._opened.lane

    @property
    def node_id(self) -> NodeId:
        """Id of this node."""
        return self._opened.node_id

    @property
    def epoch(self) -> Epoch:
        """The present epoch; before `start` the one that the disk remembers."""
        if self._raft is not None:
            return self._raft.epoch
        election = self._opened.election
        return max(self._opened.view.last_epoch, election.epoch if election else Epoch(0))

    @property
    def leader_id(self) -> NodeId | None:
        """Leader of the present epoch as far as known."""
        return self._raft.leader_id if self._raft is not None else None

    @property
    def role(self) -> str:
        """Name of the state as in Kafka's current-state metric; before `start` it is ``unattached``."""
        return self._raft.role if self._raft is not None else "unattached"

    @property
    def high_watermark(self) -> Offset | None:
        """Everything below (exclusive) is committed; None while unknown."""
        return self._raft.high_watermark if self._raft is not None else None

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
        self._run(now)

    def _run(self, now: Instant) -> None:
        """Take a step for each event that waits; what waits before `start`, or arrives during a step, is taken then."""
        raft = self._raft
        if raft is None or self._is_stepping:
            return
        while not self._is_stopped and (arrival := self._parts.inbox.take()) is not None:
            self._carry_out(raft, raft.step(arrival.event, now), arrival.fetched, now)
        if not self._is_stopped:
            self._ports.wake_at(raft.next_deadline_ms())

    def _carry_out(self, raft: Raft, effects: Sequence[Effect], fetched: Sequence[Batch], now: Instant) -> None:
        self._is_stepping = True
        step = Step(now=now, flushed_end_offset=raft.log.flushed_end_offset, fetched=fetched)
        for effect in effects:
            execute(self._parts, effect, step)
            if self._is_stopped:
                break
        self._parts.producers.lost(raft.epoch if raft.role == LEADER else None)
        self._is_stepping = False

    def _describe_cluster(self, request: Body, listener: str) -> Body:
        config = self._opened.config
        return describe_cluster(
            request,
            cluster_id=config.cluster_id,
            listener=listener,
            leader_id=self.leader_id,
            voters=self._raft.voters if self._raft is not None else config.voters,
        )

    def _stop(self, error: Exception | None) -> None:
        """The core has ended, or must: no more steps, and every proposal gets its outcome."""
        self._is_stopped = True
        self._parts.inbox.clear()
        self._parts.producers.end()
        self._ports.stop(error)
