"""A few cores, their disks and the messages between them, moved by hand one step at a time.

No bytes and no host: a log is a list of batches, of which the first so many are flushed; a message waits in
its sender until the write it relies on is flushed, then on the wire until it is delivered or dropped. Time
passes only when a scenario says so. Whatever a core does is told to `lines`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from random import Random

from pykraft.config import RaftConfig
from pykraft.core import effects, events, messages
from pykraft.core.effects import Effect
from pykraft.core.log_view import LogView
from pykraft.core.messages import FetchedBatch
from pykraft.core.raft import Raft
from pykraft.core.replica import LocalReplica
from pykraft.types import (
    EPOCH_ZERO,
    Election,
    Endpoint,
    Epoch,
    EpochStart,
    Instant,
    Io,
    Listeners,
    NodeId,
    Offset,
    ReplicaKey,
    Uuid,
    Voter,
    VoterSet,
)
from tests.scenarios import tell

LISTENER = "CONTROLLER"
WALL_MS = 1_000_000
OBSERVER_WITHOUT_ID = 0


@dataclass(kw_only=True)
class Disk:
    """What one node keeps: survives a restart as far as it is flushed."""

    election: Election | None = None
    batches: list[FetchedBatch] = field(default_factory=list)

    @property
    def end_offset(self) -> Offset:
        return self.batches[-1].end_offset if self.batches else Offset(0)

    def epochs(self) -> list[EpochStart]:
        starts: dict[Epoch, Offset] = {}
        for batch in self.batches:
            starts.setdefault(batch.epoch, batch.base_offset)
        return [EpochStart(epoch=epoch, start_offset=offset) for epoch, offset in starts.items()]


@dataclass(kw_only=True)
class Message:
    """One message on its way; ``request_id`` belongs to the sender of the request."""

    source: int
    target: int
    correlation_id: int
    body: messages.Request | messages.Response
    is_request: bool
    after: Io


class Node:
    """One core with its disk."""

    def __init__(self, world: World, node_id: int, disk: Disk) -> None:
        self.world = world
        self.node_id = node_id
        self.disk = disk
        self.memory = Disk(election=disk.election, batches=list(disk.batches))
        self.jobs: list[Effect] = []
        self.held: list[Message] = []
        self.durable = Io(0)
        self.fetched: tuple[FetchedBatch, ...] = ()
        self.asked: dict[int, Message] = {}
        self.proposals: dict[int, int] = {}
        local_id = None if node_id == OBSERVER_WITHOUT_ID else NodeId(node_id)
        self.raft = Raft(
            config=world.config,
            local=LocalReplica(
                id=local_id,
                directory_id=Uuid(bytes([node_id + 100]) * 16),
                listeners=world.listeners(node_id),
                default_listener=LISTENER,
            ),
            voters=world.voters,
            election=disk.election,
            log=LogView(start_offset=Offset(0), end_offset=disk.end_offset, epochs=disk.epochs()),
            rng=Random(node_id),
            now=world.now,
        )

    def step(self, event: events.Event) -> None:
        """One step of the core; its effects become lines, jobs and messages."""
        self.carry_out(self.raft.step(event, self.world.now))

    def carry_out(self, done: list[Effect]) -> None:
        for effect in done:
            self.world.say(tell.effect(self.node_id, effect))
            match effect:
                case effects.WriteElectionState() | effects.AppendBatches():
                    self.jobs.append(effect)
                    self._remember(effect)
                case effects.AppendFetched() | effects.TruncateTo():
                    self.jobs.append(effect)
                    self._remember(effect)
                case effects.Send():
                    self._hold(effect.peer.id, effect.correlation_id, effect.message, effect.after, is_request=True)
                case effects.Reply():
                    self._answer(effect.request_id, effect.message, effect.after)
                case effects.ReplyFetch():
                    self._answer(effect.request_id, self._with_batches(effect), effect.after)
                case _:
                    pass
        self.release()

    def flush(self) -> None:
        """Every job so far becomes durable; what waited for it leaves."""
        if not self.jobs:
            return
        self.disk.election = self.memory.election
        self.disk.batches = list(self.memory.batches)
        last = self.jobs[-1]
        assert isinstance(
            last,
            effects.WriteElectionState | effects.AppendBatches | effects.AppendFetched | effects.TruncateTo,
        )
        self.jobs = []
        self.durable = last.io
        self.release()
        self.step(events.Persisted(io=last.io))

    def release(self) -> None:
        """Put on the wire what no longer waits for the disk."""
        for message in [held for held in self.held if held.after <= self.durable]:
            self.held.remove(message)
            self.world.wire.append(message)

    def _remember(self, effect: Effect) -> None:
        match effect:
            case effects.WriteElectionState():
                self.memory.election = effect.election
            case effects.AppendBatches():
                for batch in effect.batches:
                    self.memory.batches.append(
                        FetchedBatch(
                            base_offset=batch.base_offset,
                            end_offset=batch.end_offset,
                            epoch=batch.epoch,
                            size_bytes=100,
                        )
                    )
            case effects.AppendFetched():
                self.memory.batches += self.fetched[: effect.count]
            case effects.TruncateTo():
                self.memory.batches = [batch for batch in self.memory.batches if batch.end_offset <= effect.end_offset]
            case _:
                pass

    def _with_batches(self, effect: effects.ReplyFetch) -> messages.FetchResponse:
        batches = tuple(
            batch
            for batch in self.memory.batches
            if effect.fetch_offset <= batch.base_offset and batch.end_offset <= effect.end_offset
        )
        return dataclasses.replace(effect.message, batches=batches)

    def _hold(
        self,
        target: int,
        correlation_id: int,
        body: messages.Request | messages.Response,
        after: Io,
        *,
        is_request: bool,
    ) -> None:
        message = Message(
            source=self.node_id,
            target=target,
            correlation_id=correlation_id,
            body=body,
            is_request=is_request,
            after=after,
        )
        self.held.append(message)

    def _answer(self, request_id: int, body: messages.Response, after: Io) -> None:
        request = self.asked.pop(request_id)
        self._hold(request.source, request.correlation_id, body, after, is_request=False)


class World:
    """All nodes, the wire and the clock."""

    def __init__(self, *, voters: int, observers: int, config: RaftConfig) -> None:
        self.config = config
        self.now_ms = 0
        self.wire: list[Message] = []
        self.lines: list[str] = []
        self.cuts: set[tuple[int, int]] = set()
        self.nodes: dict[int, Node] = {}
        self._next_request_id = 1
        self._next_handle = 1
        members = range(1, voters + 1)
        self.voters = VoterSet.of(
            Voter(key=ReplicaKey(NodeId(node_id)), listeners=self.listeners(node_id)) for node_id in members
        )
        for node_id in range(1, voters + observers + 1):
            self.nodes[node_id] = Node(self, node_id, Disk())

    @property
    def now(self) -> Instant:
        return Instant(mono_ms=self.now_ms, wall_ms=WALL_MS + self.now_ms)

    def listeners(self, node_id: int) -> Listeners:
        """Every node listens at its own port."""
        return Listeners(((LISTENER, Endpoint(f"n{node_id}", 9_000 + node_id)),))

    def say(self, line: str | None) -> None:
        """One more line of the story."""
        if line is not None:
            self.lines.append(line)

    def start(self, node_id: int) -> None:
        """The first step of a node."""
        node = self.nodes[node_id]
        node.carry_out(node.raft.start(self.now))

    def crash(self, node_id: int) -> None:
        """Lose the node with everything that it had not flushed, and all messages to and from it."""
        node = self.nodes.pop(node_id)
        self.wire = [message for message in self.wire if node_id not in (message.source, message.target)]
        self.nodes[-node_id] = node

    def restart(self, node_id: int) -> None:
        """Start the node again from what its disk holds."""
        disk = self.nodes.pop(-node_id).disk
        self.nodes[node_id] = Node(self, node_id, disk)
        self.start(node_id)

    def running(self) -> list[Node]:
        """Nodes that are up, in order."""
        return [self.nodes[node_id] for node_id in sorted(self.nodes) if node_id > 0 or node_id == 0]

    def deliver(self, message: Message) -> None:
        """Hand one message to its target, unless the link is cut or nobody is there."""
        self.wire.remove(message)
        node = self.nodes.get(message.target)
        if node is None or (message.source, message.target) in self.cuts:
            self._bounce(message)
            return
        self.say(tell.message(message.source, message.target, message.body))
        if message.is_request:
            assert not isinstance(message.body, messages.Response)
            request_id, self._next_request_id = self._next_request_id, self._next_request_id + 1
            node.asked[request_id] = message
            node.step(events.RequestReceived(request_id=request_id, listener=LISTENER, message=message.body))
            return
        assert isinstance(message.body, messages.Response)
        if isinstance(message.body, messages.FetchResponse):
            node.fetched = message.body.batches
        node.step(
            events.ResponseReceived(peer_id=message.source, correlation_id=message.correlation_id, message=message.body)
        )

    def _bounce(self, message: Message) -> None:
        """A request to a node that is down fails at once; over a cut link it is just lost."""
        sender = self.nodes.get(message.source)
        if message.is_request and sender is not None and message.target not in self.nodes:
            sender.step(events.SendFailed(peer_id=message.target, correlation_id=message.correlation_id, error=8))

    def propose(self, node_id: int, count: int) -> None:
        """The application of this node proposes records."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        raft = self.nodes[node_id].raft
        self.nodes[node_id].step(
            events.Proposed(handle=handle, epoch=raft.epoch or EPOCH_ZERO, count=count, size_bytes=100 * count)
        )
