"""A few cores, their disks and the messages between them, moved by hand one step at a time.

No bytes and no host: a log is a list of batches, and a disk does its jobs when it is told to; a message waits in
its sender until the job it relies on is durable, then on the wire until it is delivered or dropped. Time passes
only when a scenario says so, and each node has its own clock. Whatever a core does is told to `lines`.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from random import Random
from typing import assert_never

from pykraft import types
from pykraft.config import RaftConfig
from pykraft.core import effects, events, messages
from pykraft.core.effects import Effect
from pykraft.core.epochs import epoch_at
from pykraft.core.messages import FetchedBatch
from pykraft.core.proof import Proof
from pykraft.core.raft import Raft
from pykraft.core.replica import LocalReplica
from pykraft.errors import ErrorCode
from tests.scenarios import tell
from tests.scenarios.disk import Disk, with_slice
from tests.scenarios.members import directory_id, membership_in, records_at, voter, voter_history
from tests.scenarios.message import Message

LISTENER = "CONTROLLER"
WALL_MS = 1_000_000
PORT_FIRST = 9_000
OBSERVER_WITHOUT_ID = 0
OUTSIDER = 99
"""Who sends the requests that no node sends: an operator, a Java voter, an impostor."""
UNAVAILABLE = ErrorCode.BROKER_NOT_AVAILABLE


@dataclass(frozen=True, kw_only=True)
class Job:
    """A storage effect that is not durable yet, and what the disk holds once it is."""

    io: types.Io
    result: Disk


class Node:
    """One core with its disk."""

    def __init__(self, world: World, node_id: int, disk: Disk) -> None:
        self.world = world
        self.node_id = node_id
        self.disk = disk
        self.memory = disk.copy()
        self.jobs: list[Job] = []
        self.ahead_ms = 0
        self.held: list[Message] = []
        self.durable = types.Io(0)
        self.fetched: tuple[FetchedBatch, ...] = ()
        self.received_bytes = 0
        self.bulk: list[events.Event] = []
        """What the bulk lane will have done."""
        self.asked: dict[int, Message] = {}
        self.asks: dict[int, Message] = {}
        view = disk.recover()
        local_id = None if node_id == OBSERVER_WITHOUT_ID else types.NodeId(node_id)
        self.raft = Raft(
            config=dataclasses.replace(world.config, never_leads=node_id in world.never_leading),
            local=LocalReplica(
                id=local_id,
                directory_id=directory_id(node_id, world.disks.get(node_id, 0)),
                listeners=world.listeners(node_id),
                default_listener=LISTENER,
                proof=disk.proof,
            ),
            voter_history=voter_history(
                world.voters,
                disk.batches,
                kraft_version=world.kraft_version,
                is_formatted=node_id not in world.disks,  # a disk that came later has no checkpoint
                in_snapshot=disk.in_snapshot(),
            ),
            bootstrap=world.bootstrap,
            election=disk.election,
            log=view,
            rng=Random(node_id),
            now=self.now,
        )

    @property
    def now(self) -> types.Instant:
        """The world's time as this node's clocks show it."""
        now_ms = self.world.now_ms + self.ahead_ms
        return types.Instant(mono_ms=now_ms, wall_ms=WALL_MS + now_ms)

    def deadline_ms(self) -> int | None:
        """When this node wants to act, in the world's time."""
        deadline_ms = self.raft.next_deadline_ms()
        return None if deadline_ms is None else deadline_ms - self.ahead_ms

    def step(self, event: events.Event) -> None:
        """One step of the core; its effects become lines, jobs and messages."""
        self.carry_out(self.raft.step(event, self.now))

    def carry_out(self, done: list[Effect]) -> None:
        for effect in done:
            self.world.say(tell.effect(self.node_id, effect))
            match effect:
                case _ if isinstance(effect, effects.StorageEffect):
                    self._remember(effect)
                    self.jobs.append(Job(io=effect.io, result=self.memory.copy()))
                case effects.Send():
                    self._ask(effect)
                case effects.Reply():
                    self._answer(effect.request_id, effect.message, effect.after)
                case effects.ReplyFetch():
                    self._answer(effect.request_id, self._with_batches(effect), effect.after)
                case effects.ReplySnapshot():
                    self._answer(effect.request_id, with_slice(effect), effect.after)
                case effects.NotifyHighWatermark():
                    self.memory.committed_end_offset = max(self.memory.committed_end_offset, effect.high_watermark)
                case effects.BeginDownload() | effects.AppendDownload() | effects.AbandonDownload():
                    self._download(effect)
                case _:
                    pass
        self.release()

    def take_snapshot(self, offset: types.Offset) -> None:
        """The application has written its state as of this offset; its lane freezes it."""
        epoch = epoch_at(self.raft.log.epochs, types.Offset(offset - 1))
        assert epoch is not None
        records = records_at(self.raft.voter_history, types.Offset(offset - 1))
        self._freeze(types.OffsetAndEpoch(offset, epoch), records)

    def _freeze(self, snapshot_id: types.OffsetAndEpoch, membership: tuple[types.MembershipRecord, ...]) -> None:
        self.disk.snapshots[snapshot_id] = membership
        self.world.snapshots[snapshot_id] = membership
        self.bulk.append(events.SnapshotFrozen(snapshot_id=snapshot_id, membership=membership))

    def _download(self, effect: effects.BeginDownload | effects.AppendDownload | effects.AbandonDownload) -> None:
        parts, snapshot_id = self.disk.parts, effect.snapshot_id
        if isinstance(effect, effects.AbandonDownload):
            parts.pop(snapshot_id, None)
            return
        if isinstance(effect, effects.AppendDownload):
            parts[snapshot_id] = effect.position + self.received_bytes
            if effect.is_last:
                del parts[snapshot_id]
                self._freeze(snapshot_id, self.world.snapshots[snapshot_id])
                return
        position, leader_epoch = parts.get(snapshot_id, 0), self.raft.status.epoch
        self.bulk.append(events.DownloadAdvanced(snapshot_id=snapshot_id, leader_epoch=leader_epoch, position=position))

    def do_bulk(self) -> None:
        """The bulk lane does what waits for it."""
        done, self.bulk = self.bulk, []
        for event in done:
            self.step(event)

    def damage(self, damage: types.Damage) -> None:
        """A place on the disk goes bad: in what is durable, and in what will be."""
        for disk in (self.disk, self.memory, *(job.result for job in self.jobs)):
            disk.damages = (*disk.damages, damage)

    def flush(self, count: int | None = None) -> None:
        """The oldest jobs, or all of them, become durable; what waited for them leaves."""
        done, self.jobs = self.jobs[:count], self.jobs[count:] if count else []
        if not done:
            return
        last = done[-1]
        self.disk = last.result
        self.durable = last.io
        self.release()
        self.step(events.Persisted(io=last.io))

    def release(self) -> None:
        """Put on the wire what no longer waits for the disk."""
        for message in [held for held in self.held if held.after <= self.durable]:
            self.held.remove(message)
            self.world.wire.append(message)

    def _remember(self, effect: effects.StorageEffect) -> None:
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
                            membership=membership_in(batch),
                        )
                    )
            case effects.AppendFetched():
                self.memory.batches += self.fetched[: effect.count]
            case effects.TruncateTo():
                self.memory.cut(effect.end_offset)
            case effects.EnterQuarantine():
                self.memory.quarantine = dataclasses.replace(effect.quarantine, is_cut=True)
            case effects.LeaveQuarantine():
                self.memory.quarantine = None
            case effects.NoteProof():
                self.memory.proof = Proof(is_complete=True, votes_above=effect.votes_above)
            case effects.InstallSnapshot():
                self.memory.begin_anew(effect.snapshot_id)
            case effects.MoveLogStart():
                self.memory.begin_at(effect.snapshot_id)
            case _:
                assert_never(effect)

    def _with_batches(self, effect: effects.ReplyFetch) -> messages.FetchResponse:
        batches = tuple(
            batch
            for batch in self.memory.batches
            if effect.fetch_offset <= batch.base_offset and batch.end_offset <= effect.end_offset
        )
        return dataclasses.replace(effect.message, batches=batches)

    def _ask(self, effect: effects.Send) -> None:
        message = Message(
            source=self.node_id,
            target=effect.peer.endpoint.port - PORT_FIRST,
            peer_id=effect.peer.id,
            correlation_id=effect.correlation_id,
            body=effect.message,
            is_request=True,
            after=effect.after,
        )
        self.held.append(message)
        self.asks[message.target] = message

    def _answer(self, request_id: int, body: messages.Response, after: types.Io) -> None:
        request = self.asked.pop(request_id)
        answer = dataclasses.replace(
            request, source=self.node_id, target=request.source, body=body, is_request=False, after=after
        )
        self.held.append(answer)


class World:
    """All nodes, the wire and the clock."""

    def __init__(
        self,
        *,
        voters: int,
        others: list[int],
        bootstrap: list[int],
        config: RaftConfig,
        kraft_version: int = 0,
        never_leading: frozenset[int] = frozenset(),
    ) -> None:
        self.config = config
        self.never_leading = never_leading
        self.kraft_version = kraft_version
        self.now_ms = 0
        self.wire: list[Message] = []
        self.lines: list[str] = []
        self.cuts: set[tuple[int, int]] = set()
        self.refusing: set[tuple[int, int]] = set()
        self.without_pre_vote: set[int] = set()
        self.nodes: dict[int, Node] = {}
        self.disks: dict[int, int] = {}
        """How often the disk of a node was replaced."""
        self.crashed: dict[int, Disk] = {}
        self.snapshots: dict[types.OffsetAndEpoch, tuple[types.MembershipRecord, ...]] = {}
        """What each snapshot that there ever was says of voters."""
        self._next_request_id = 1
        self._next_handle = 1
        members = range(1, voters + 1)
        self.voters = types.VoterSet.of(voter(each, self.listeners(each), kraft_version) for each in members)
        self.bootstrap = tuple(self.endpoint(node_id) for node_id in bootstrap)
        for node_id in (*members, *others):
            self.nodes[node_id] = Node(self, node_id, Disk())

    def endpoint(self, node_id: int) -> types.Endpoint:
        """Every node listens at its own port."""
        return types.Endpoint(f"n{node_id}", PORT_FIRST + node_id)

    def listeners(self, node_id: int) -> types.Listeners:
        """One listener is enough here."""
        return types.Listeners(((LISTENER, self.endpoint(node_id)),))

    def say(self, line: str | None) -> None:
        """One more line of the story."""
        if line is not None:
            self.lines.append(line)

    def start(self, node_id: int) -> None:
        """The first step of a node."""
        node = self.nodes[node_id]
        node.carry_out(node.raft.start(node.now))

    def crash(self, node_id: int) -> None:
        """Lose the node with everything that it had not flushed, and all messages to and from it."""
        self.crashed[node_id] = self.nodes.pop(node_id).disk
        self.wire = [message for message in self.wire if node_id not in (message.source, message.target)]

    def restart(self, node_id: int, *, empty: Proof | None = None) -> None:
        """Start the node again from what its disk holds, or from an empty one that proves so much."""
        disk = self.crashed.pop(node_id)
        if empty is not None and empty.has_fresh_id:
            self.disks[node_id] = self.disks.get(node_id, 0) + 1
        self.nodes[node_id] = Node(self, node_id, disk if empty is None else Disk(proof=empty))
        self.start(node_id)

    def running(self) -> list[Node]:
        """Nodes that are up, in order."""
        return [self.nodes[node_id] for node_id in sorted(self.nodes)]

    def deliver(self, message: Message) -> None:
        """Hand one message to its target, unless the link is cut or nobody is there."""
        self.wire.remove(message)
        if (message.source, message.target) in self.cuts:
            return
        node = self.nodes.get(message.target)
        is_refused = node is None or (message.source, message.target) in self.refusing
        if message.is_request and (is_refused or self._is_too_new(message)):
            self.fail(message, UNAVAILABLE if is_refused else ErrorCode.UNSUPPORTED_VERSION, is_refused=is_refused)
            return
        self.say(tell.message(message.source, message.target, message.body))
        if node is not None:
            self._hand_over(node, message)

    def ask(self, node_id: int, body: messages.Request) -> None:
        """A request from outside; it is on the wire, and so will be its answer."""
        message = Message(
            source=OUTSIDER,
            target=node_id,
            peer_id=node_id,
            correlation_id=0,
            body=body,
            is_request=True,
            after=types.Io(0),
        )
        self.wire.append(message)

    def _hand_over(self, node: Node, message: Message) -> None:
        if message.is_request:
            assert not isinstance(message.body, messages.Response)
            if isinstance(message.body, messages.ApiVersionsRequest):  # the host answers it
                answer = messages.ApiVersionsResponse(error=0, kraft_version=types.VersionRange(0, 1))
                self.wire.append(
                    dataclasses.replace(
                        message, source=message.target, target=message.source, body=answer, is_request=False
                    )
                )
                return
            request_id, self._next_request_id = self._next_request_id, self._next_request_id + 1
            node.asked[request_id] = message
            node.step(events.RequestReceived(request_id=request_id, listener=LISTENER, message=message.body))
            return
        assert isinstance(message.body, messages.Response)
        body = message.body
        if isinstance(body, messages.FetchResponse):
            node.fetched = body.batches
            if body.diverging is not None:  # the host knows where batches begin
                body = dataclasses.replace(body, batch_start=node.memory.batch_start(body.diverging.offset))
        if isinstance(message.body, messages.FetchSnapshotResponse):
            node.received_bytes = message.body.received_bytes
        node.step(events.ResponseReceived(peer_id=message.peer_id, correlation_id=message.correlation_id, message=body))

    def _is_too_new(self, message: Message) -> bool:
        """True for a pre-vote to a node whose software is older than pre-votes."""
        is_pre_vote = isinstance(message.body, messages.VoteRequest) and message.body.pre_vote
        return is_pre_vote and message.target in self.without_pre_vote

    def fail(self, message: Message, error: ErrorCode, *, is_refused: bool = False) -> None:
        """The sender of a request hears that there will be no answer."""
        self.say(f"  {message.source}->{message.target} fails: {error.name}")
        sender = self.nodes.get(message.source)
        if sender is not None:
            failed = events.SendFailed(
                peer_id=message.peer_id, correlation_id=message.correlation_id, error=error, is_refused=is_refused
            )
            sender.step(failed)

    def propose(self, node_id: int, count: int) -> None:
        """The application of this node proposes records."""
        handle, self._next_handle = self._next_handle, self._next_handle + 1
        epoch = self.nodes[node_id].raft.status.epoch or types.EPOCH_ZERO
        self.nodes[node_id].step(events.Proposed(handle=handle, epoch=epoch, count=count, size_bytes=100 * count))


def reset(world: World, source: int, target: int) -> None:
    """Break the connection that the source dialed: its newest request is lost, or the answer to it."""
    asked = world.nodes[source].asks.pop(target)
    ends = {source, target}
    world.wire = [
        message
        for message in world.wire
        if {message.source, message.target} != ends or message.correlation_id != asked.correlation_id
    ]
    world.fail(asked, UNAVAILABLE)
