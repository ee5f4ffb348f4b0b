"""One client of Kafka's tests as a pykraft node: its host on a virtual disk, with the network and clock of the test.

The host is the one that servers run; this module only gives it `Ports`. Connections are made at once, and the other end
offers the versions that the test's Kafka has. Storage jobs are done at the end of the call that caused them, so each
call ends with everything durable. Invariant: effects are reported in the order in which the host asked for them.

What the shim mirrors onto a log of Kafka's is reported when the host asks for it, as Kafka appends to the page cache,
and the flush when the lane has synced.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from logging import getLogger
from random import Random
from typing import Any, Final, TypeVar

from pykraft.core import effects
from pykraft.core.election import NEVER_MS
from pykraft.core.events import SnapshotsExpired
from pykraft.core.raft import Raft
from pykraft.core.state import Candidate, Follower, Leader
from pykraft.host.delivery import CommittedBatch, Registration
from pykraft.host.host import Host
from pykraft.host.metrics import HOST_METRICS
from pykraft.host.ports import AT_ONCE_MS, CheckInSteps, ConnectionId, run_steps
from pykraft.host.producers import ProposalOutcome, Rejected
from pykraft.host.snapshots.creation import Loader, NewSnapshot
from pykraft.log.lane import AppendBytes, Job
from pykraft.log.small_files.quorum_state import FILE_NAME, parse_quorum_state
from pykraft.protocol import api
from pykraft.protocol.messages import ApiKey
from pykraft.rpc.api_versions import api_key_bodies
from pykraft.rpc.connection import NEGOTIATION_VERSION
from pykraft.snapshot.files import BOOTSTRAP_ID, checkpoint_path
from pykraft.snapshot.head import SnapshotReader
from pykraft.types import (
    NO_LISTENERS,
    ZERO_UUID,
    Buffer,
    Election,
    Endpoint,
    Epoch,
    Instant,
    NodeId,
    Offset,
    OffsetAndEpoch,
    Voter,
    VoterSet,
)
from tests.kafka.raft_suite.liberties import Claim, Paced, Question, confirmed_levels, refused_epoch
from tests.kafka.raft_suite.setup import Setup, write_disk
from tests.kafka.raft_suite.wire import Did, Link, Writer, write_each

T = TypeVar("T")
LOG: Final = getLogger(__name__)
LENGTH_SIZE_BYTES: Final = 4
SEEDS_COUNT: Final = 2**31 - 1
"""So many different numbers Java's generator draws with a bound."""
OFFSETS: Final = frozenset(metric.name for metric in HOST_METRICS if metric.unit == "offset")
"""Metrics that are 64 bits wide."""


class DrawnByTest(Random):
    """The generator of the test, which may say what it draws."""

    def __init__(self, link: Link) -> None:
        super().__init__(0)
        self._link = link

    def randrange(self, start: int, stop: int | None = None, step: int = 1) -> int:
        """See `random.Random.randrange`; only the first form is used."""
        assert stop is None
        return self._link.draw(start)


class Plain:
    """Records are bytes here; the shim has the test's serde."""

    def serialize(self, record: bytes) -> bytes:
        """See `pykraft.snapshot.writer.Serializer`."""
        return record

    def deserialize(self, data: bytes) -> bytes:
        """See `pykraft.snapshot.head.Deserializer`."""
        return data


class Listener:
    """A listener of the test. It is called again once it has read what it got."""

    def __init__(self, node: Node, number: int) -> None:
        self._node = node
        self._number = number
        self.registration: Registration | None = None

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        assert self.registration is not None
        self.registration.hold()
        data = b"".join(bytes(batch.data) for batch in batches)
        self._node.show_committed()
        self._node.show(Writer(Did.COMMIT).int32(self._number).int64(batches[0].base_offset).blob(data))

    def on_leader_change(self, epoch: Epoch, leader_id: NodeId | None) -> None:
        """See `pykraft.host.delivery.HostListener`."""
        self._node.show(Writer(Did.LEADER).int32(self._number, epoch, leader_id))

    def load(self, reader: SnapshotReader[Any]) -> None:
        """See `pykraft.host.snapshots.creation.Loader`."""
        reader.close()
        found = reader.snapshot_id
        writer = Writer(Did.LOAD).int32(self._number).int64(found.offset).int32(found.epoch)
        self._node.show(writer.flag(found == BOOTSTRAP_ID))


class Node:
    """One client; see `pykraft.host.ports.Ports`. Each call ends with `settle`."""

    def __init__(self, link: Link, setup: Setup, now_ms: int) -> None:
        self._link = link
        self._setup = setup
        self._now_ms = now_ms
        self._disk = write_disk(setup, Random(0))
        self._ready: deque[Callable[[], None]] = deque()
        self._jobs: list[Job] = []
        self._wake_ms: int | None = None
        self._told_wake_ms: int | None = None
        self._told_committed: Offset | None = None
        self._next_connection = 1
        self._dialed: set[ConnectionId] = set()
        self._negotiated: set[ConnectionId] = set()
        self._asked: dict[ConnectionId, tuple[int, str, bytes]] = {}
        self._questions: dict[ConnectionId, api.RequestHeader] = {}
        """What only pykraft asks a voter, since it refused a request in its name."""
        self._refused: deque[Callable[[], None]] = deque()
        """Requests that were refused until the voter confirms them, once its question is asked."""
        self._is_idle_ms: int | None = None
        """The time of the last poll, if nothing came of it."""
        self._awaited: dict[ConnectionId, tuple[api.RequestHeader, int]] = {}
        """Requests without an answer, each with the peer that was asked."""
        self._leaving: dict[ConnectionId, tuple[effects.Send, Writer]] = {}
        """Requests that leave at the next poll, as those of Kafka's client do."""
        self._listeners: dict[int, Listener] = {}
        self._snapshots: dict[int, NewSnapshot] = {}
        self._told_metrics: tuple[bool, bool] | None = None
        self._told_voters: VoterSet | None = None
        self._until_poll: Callable[[Instant], None] | None = None
        self._is_stopped = self._is_leaving = False
        core = Raft if setup.is_strict else Paced
        # The nodes of a simulation draw often, each from one number of the test.
        rng = Random(link.draw(SEEDS_COUNT)) if setup.is_simulation else DrawnByTest(link)
        self.host = Host.open(self._disk, self, setup.config, rng=rng, core=core)
        self._told_committed = self.host.status.committed_end_offset
        self._report_election()
        self.host.start(self.now)

    @property
    def now(self) -> Instant:
        """The time of the test."""
        return Instant(mono_ms=self._now_ms, wall_ms=self._now_ms)

    @property
    def _raft(self) -> Raft:
        assert self.host.raft is not None, "the host runs"
        return self.host.raft

    # ---- What the host asks of its surroundings

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        """See `Ports`."""
        del endpoint
        connection = self._new_connection()
        self._dialed.add(connection)
        self._ready.append(lambda: self.host.on_connected(connection, self.now))
        return connection

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        """See `Ports`."""
        data = b"".join(parts)[LENGTH_SIZE_BYTES:]
        if connection in self._asked:
            self._answer(connection, data)
        elif connection not in self._negotiated:
            self._negotiated.add(connection)
            body = {"api_keys": api_key_bodies(self._setup.versions)}
            correlation_id = api.decode_request_header(data).correlation_id
            answer = b"".join(api.encode_response(ApiKey.API_VERSIONS, NEGOTIATION_VERSION, correlation_id, body))
            self._ready.append(lambda: self.host.on_frame(connection, answer, self.now))
        else:
            header = api.decode_request_header(data)
            contact = self.host._components.peers._by_connection[connection]
            peer, send = contact.peer, contact.wanted
            assert send is not None
            self._awaited[connection] = header, peer.id
            if self._is_answered(connection, header):
                return
            if self._raft.connections._in_flight[peer.id].is_aside and not self._setup.is_strict:
                self._questions[connection] = header
                return
            self._leaving[connection] = (
                send,
                Writer(Did.SEND)
                .int32(connection, header.api_key, header.api_version, header.correlation_id, peer.id)
                .text(peer.endpoint.host)
                .int32(peer.endpoint.port)
                .blob(data[header.body_position :]),
            )

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        """See `Ports`: frames arrive whole."""
        del connection
        return 0, 0

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        """See `Ports`: frames leave at once."""
        del connection
        return 0

    def close(self, connection: ConnectionId) -> None:
        """See `Ports`."""
        self._dialed.discard(connection)
        self._awaited.pop(connection, None)
        self._leaving.pop(connection, None)
        self._asked.pop(connection, None)

    def submit(self, job: Job) -> None:
        """See `Ports`."""
        self._show_job(job)
        if not self._jobs:
            self._ready.append(self._perform)
        self._jobs.append(job)

    def submit_read(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        """See `Ports`."""
        self._ready.append(lambda: then(read()))

    def submit_check(self, check: CheckInSteps) -> None:
        """See `Ports`."""
        self._ready.append(lambda: check.ended(run_steps(check.steps)))

    def wake_at(self, mono_ms: int | None) -> None:
        """See `Ports`."""
        self._wake_ms = mono_ms

    def report(self, report: effects.Report) -> None:
        """See `Ports`: into the log of the process."""
        LOG.info("%s", report.text)

    def stop(self, error: Exception | None) -> None:
        """See `Ports`."""
        self._is_stopped = True
        text = "" if error is None else f"{type(error).__name__}: {error}"
        self.show(Writer(Did.STOPPED).flag(self.host.is_left_gracefully).text(text))

    # ---- What the test asks of the client

    def poll(self, earliest: OffsetAndEpoch | None) -> None:
        """Do what is due; the log of the test begins at this snapshot, perhaps by the test's doing."""
        if earliest is not None and earliest.offset > self.host.status.log_start_offset:
            self.host._components.inbox.put(SnapshotsExpired(oldest_kept=earliest))
        is_strict = self._setup.is_strict
        late = () if is_strict else self._pass_back_offs()
        if not is_strict:
            self._raft.turns_max = 1
        if self._until_poll is not None:
            self._until_poll(self.now)
            self._until_poll = None
        self.host.on_tick(self.now)
        self.settle()
        for peer_id in late:
            self._raft.connections._backing_off.pop(peer_id, None)
        if late:
            self.host.on_tick(self.now)
            self.settle()
        if not is_strict:
            self._raft.turns_max = 0
        leaving, self._leaving = self._leaving, {}
        self._is_idle_ms = None if leaving else self._now_ms
        for send, writer in leaving.values():
            # Unsent requests: the test may have let more time pass than the node waits for an answer.
            if is_strict or self._awaits(send):
                self.show(writer)

    def _pass_back_offs(self) -> list[int]:
        """Let the back-offs pass that Kafka does not wait for; returns the leader whose answer is late.

        Kafka asks another node when its leader's answer is late, as the core does while that backs off.
        """
        connections, status = self._raft.connections, self.host.status
        in_flight = connections._in_flight
        if self._is_idle_ms == self._now_ms:
            connections._backing_off.clear()
        unsent = {send.peer.id for send, _ in self._leaving.values()}
        late = [peer_id for peer_id, request in in_flight.items() if request.deadline_ms <= self._now_ms]
        is_follower = isinstance(self._raft.state, Follower)
        asked_leader = [each for each in late if is_follower and each == status.leader_id and each not in unsent]
        for peer_id in set(late) - set(asked_leader):
            del in_flight[peer_id]
        self._leaving = {each: kept for each, kept in self._leaving.items() if self._awaits(kept[0])}
        return asked_leader

    def at(self, now_ms: int) -> None:
        """The time of the next call."""
        self._now_ms = now_ms

    def request(self, number: int, listener: str, frame: bytes) -> None:
        """A request arrives on a connection of its own."""
        self._is_idle_ms = None
        connection = self._new_connection()
        self._asked[connection] = (number, listener, frame)
        self.host.on_accepted(connection, listener, self.now)
        self.host.on_frame(connection, frame, self.now)

    def response(self, connection: ConnectionId, frame: bytes) -> None:
        """The answer to a request of this node; nobody waits for it once the host has closed the connection."""
        self._is_idle_ms = None
        if connection in self._awaited:
            del self._awaited[connection]
            self.host.on_frame(connection, frame, self.now)

    def register(self, number: int) -> None:
        """A listener of the test joins; it is called from the next poll on."""
        listener = self._listeners[number] = Listener(self, number)
        plain = Plain()
        listener.registration = self.host.register(
            listener, is_held=True, loader=Loader(deserializer=plain, load=listener.load, bootstrap=listener.load)
        )

    def unregister(self, number: int) -> None:
        """It leaves."""
        registration = self._listeners.pop(number).registration
        assert registration is not None
        registration.remove()

    def release(self, number: int) -> None:
        """It has read what it got."""
        listener = self._listeners.get(number)
        if listener is not None and listener.registration is not None:
            listener.registration.release()

    def propose(self, epoch: Epoch, values: list[bytes]) -> Offset:
        """The last offset of these values. Errors: what the proposal is rejected with."""
        accepted: list[Offset] = []
        rejected: list[Exception] = []

        def on_outcome(outcome: ProposalOutcome) -> None:
            if isinstance(outcome, Rejected):
                rejected.append(outcome.error)

        self.host.propose(
            values, epoch=epoch, now=self.now, on_outcome=on_outcome, on_accepted=accepted.append, is_prepared=True
        )
        if not accepted:
            raise rejected[0]
        return Offset(accepted[0] + len(values) - 1)

    def resign(self, epoch: Epoch, *, is_at_once: bool) -> None:
        """Resign in the next poll, or at once where a test reaches behind the client. Errors: UsageError."""
        if is_at_once:
            self._raft.turns_max = 1
        self.host.resign(epoch, self.now)

    def shutdown(self, timeout_ms: int) -> None:
        """Leave."""
        self._is_leaving = True
        self._until_poll = partial(self.host.shutdown, timeout_ms)

    def upgrade(self, epoch: Epoch, version: int, *, validate_only: bool) -> None:
        """Raise kraft.version. Errors: why not."""
        told: list[Exception | None] = []
        self.host.upgrade_kraft_version(
            version, epoch=epoch, now=self.now, on_outcome=told.append, validate_only=validate_only
        )
        self.settle()
        if told and told[0] is not None:
            raise told[0]

    def snapshot(self, snapshot_id: OffsetAndEpoch) -> int | None:
        """Begin a snapshot; returns its number, or None when it is not needed. Errors: why it cannot begin."""
        told: list[NewSnapshot | Exception | None] = []
        self.host.create_snapshot(snapshot_id, Plain(), told.append)
        self.settle()
        [begun] = told
        if isinstance(begun, Exception):
            raise begun
        if begun is None:
            return None
        number = len(self._snapshots)
        self._snapshots[number] = begun
        return number

    def snapshot_append(self, number: int, values: list[bytes]) -> None:
        """Errors: those of the writer."""
        told: list[Exception | None] = []
        self._snapshots[number].append(values, told.append)
        self.settle()
        if told[0] is not None:
            raise told[0]

    def snapshot_freeze(self, number: int) -> int:
        """Its size in bytes; the shim gets it whole. Errors: those of the writer."""
        made, told = self._snapshots[number], list[int | Exception]()
        made.freeze(told.append)
        self.settle()
        [size_bytes] = told
        if isinstance(size_bytes, Exception):
            raise size_bytes
        self._keep(made.snapshot_id)
        return size_bytes

    def snapshot_close(self, number: int) -> None:
        """Discard it, unless it is frozen."""
        self._snapshots[number].close()

    def settle(self) -> None:
        """Do what the host has asked for, until it waits for the test."""
        while not self._is_stopped:
            if self._ready:
                self._ready.popleft()()
            elif self._refused:
                self._refused.popleft()()
            elif self._wake_ms == AT_ONCE_MS:
                self._wake_ms = None
                self.host.on_tick(self.now)
            else:
                break
        self.show_committed()

    def end(self) -> None:
        """The client is closed, or the test is over."""
        self.host.end()

    # ---- What is reported

    def show(self, writer: Writer) -> None:
        """Tell the shim."""
        self._link.write(writer)

    def write_status(self, writer: Writer, *, is_poll: bool) -> None:
        """What the shim answers questions with, and when the node wants to be polled."""
        status, raft = self.host.status, self._raft
        state = raft.state
        before_ms = self._told_wake_ms
        wants = self._wake_ms is not None and (before_ms is None or self._wake_ms < before_ms)
        if is_poll:
            self._told_wake_ms = self._wake_ms
        timeout_ms = None if self._wake_ms is None else max(0, self._wake_ms - self._now_ms)
        writer.flag(wants and not is_poll).flag(self._has_more).int64(timeout_ms)
        writer.flag(not self._is_stopped).flag(self._is_leaving).flag(raft.voter_history.ignores_static)
        writer.text(type(state).__name__).int32(status.epoch, status.leader_id)
        writer.int64(status.high_watermark, status.log_end_offset)
        writer.int32(status.kraft_version)
        writer.flag(status.voted is not None)
        if status.voted is not None:
            writer.int32(status.voted.id).blob(status.voted.directory_id or ZERO_UUID)
        writer.flag(status.voters is not self._told_voters)
        if status.voters is not self._told_voters:
            self._told_voters = status.voters
            write_each(writer, status.voters.voters, lambda voter: _write_voter(writer, voter))
        deadline_ms = getattr(state, "election_deadline_ms", None)
        writer.int64(None if deadline_ms is None else max(0, deadline_ms - self._now_ms))
        rejected = sorted(state.tally.rejected) if isinstance(state, Candidate) else []
        write_each(writer, rejected, writer.int32)
        writer.int64(self._sleeps_until_ms)
        # The names change with the leadership only.
        kind = (self._is_stopped, isinstance(state, Leader))
        writer.flag(kind != self._told_metrics)
        if kind != self._told_metrics:
            self._told_metrics = kind
            write_each(writer, self.host.metrics(self.now), writer.text)

    @property
    def _has_more(self) -> bool:
        """A listener that has not read yet would be called."""
        end_offset = self.host.status.committed_end_offset
        kept = [each.registration for each in self._listeners.values() if each.registration is not None]
        return any(each.news is not None or each.next_offset < end_offset or each._wanted is not None for each in kept)

    @property
    def _sleeps_until_ms(self) -> int:
        """Nothing comes of a poll without a message before this time."""
        if not self._setup.is_simulation or self._leaving or self._until_poll is not None:
            return 0
        return NEVER_MS if self._wake_ms is None else self._wake_ms

    def write_metrics(self, writer: Writer) -> None:
        """The metrics by name."""
        found = self.host.metrics(self.now)
        writer.int32(len(found))
        for name, value in found.items():
            writer.text(name)
            if isinstance(value, str):
                writer.code(0).text(value)
            elif isinstance(value, int):
                writer.code(2 if name in OFFSETS else 1).int64(value)
            else:
                writer.code(3).double(value)

    def _show_job(self, job: Job) -> None:
        match job:
            case AppendBytes():
                status = self.host.status
                data = b"".join(bytes(part) for _, part in job.batches)
                did = Did.APPEND_AS_LEADER if status.leads else Did.APPEND
                self.show(Writer(did).int32(status.epoch).blob(data))
            case effects.WriteElectionState():
                self._write_election(job.election, job.voters, job.kraft_version)
            case effects.TruncateTo():
                self.show(Writer(Did.TRUNCATE).int64(job.end_offset))
            case effects.InstallSnapshot():
                self._keep(job.snapshot_id)
                self.show(Writer(Did.TRUNCATE_TO_SNAPSHOT))
            case effects.MoveLogStart():
                self.show_committed()
                found = job.snapshot_id
                self.show(Writer(Did.LOG_START).int64(found.offset).int32(found.epoch))
            case _:
                pass

    def show_committed(self) -> None:
        """Tell the shim what became committed."""
        status = self.host.status
        if status.committed_end_offset != self._told_committed:
            self._told_committed = status.committed_end_offset
            self._link.write(Writer(Did.HIGH_WATERMARK).int64(status.committed_end_offset))

    def _report_election(self) -> None:
        path = self._setup.config.partition_directory / FILE_NAME
        if self._disk.exists(path):
            stored = parse_quorum_state(path, self._disk.read(path))
            self._write_election(stored.election, stored.voters, stored.data_version)

    def _write_election(self, election: Election, voters: Sequence[NodeId], level: int) -> None:
        writer = Writer(Did.ELECTION).int32(election.epoch, election.leader_id)
        voted = election.voted
        writer.int32(None if voted is None else voted.id)
        writer.blob(ZERO_UUID if voted is None else voted.directory_id or ZERO_UUID)
        self.show(write_each(writer, voters, writer.int32).int32(level))

    def _keep(self, snapshot_id: OffsetAndEpoch) -> None:
        content = self._disk.read(checkpoint_path(self._setup.config.partition_directory, snapshot_id))
        self.show(Writer(Did.KEEP_SNAPSHOT).int64(snapshot_id.offset).int32(snapshot_id.epoch).blob(content))

    def _answer(self, connection: ConnectionId, data: bytes) -> None:
        number, listener, frame = self._asked.pop(connection)
        self._ready.append(lambda: self.host.on_closed(connection, self.now))
        refused = None if self._setup.is_strict else refused_epoch(frame, data)
        if refused is None:
            self.show(Writer(Did.ANSWER).int32(number).blob(data))
        else:
            self._refused.append(lambda: self._confirm(refused, number, listener, frame, data))

    def _confirm(self, refused: Claim, number: int, listener: str, frame: bytes, data: bytes) -> None:
        """The voter answers the node's question, and repeats its request; without a question the refusal stands."""
        questions, self._questions = self._questions, {}
        if refused.sender_id == self.host.status.leader_id:
            # The leader that the node follows is asked by its Fetch.
            questions = {
                connection: header
                for connection, (header, peer_id) in self._awaited.items()
                if (header.api_key, peer_id) == (ApiKey.FETCH, refused.sender_id)
            }
        if not questions:
            self.show(Writer(Did.ANSWER).int32(number).blob(data))
            return
        config = self._setup.config
        for connection, header in questions.items():
            question = Question(header=header, topic_name=config.topic_name, topic_id=config.topic_id)
            self._leaving.pop(connection, None)
            self._ready.append(partial(self.response, connection, question.answer(refused)))
        self._ready.append(lambda: self.request(number, listener, frame))

    def _is_answered(self, connection: ConnectionId, header: api.RequestHeader) -> bool:
        answer = None if self._setup.is_strict else confirmed_levels(self._raft, header)
        if answer is not None:
            self._ready.append(lambda: self.response(connection, answer))
        return answer is not None

    def _perform(self) -> None:
        jobs, self._jobs = self._jobs, []
        io = self.host.lane.perform(jobs)
        if any(isinstance(job, AppendBytes) for job in jobs) and not self.host.lane._unsynced_size_bytes:
            self.show(Writer(Did.FLUSH))
        self.host.on_io(io, self.now)

    def _awaits(self, send: effects.Send) -> bool:
        request = self._raft.connections._in_flight.get(send.peer.id)
        return request is not None and request.correlation_id == send.correlation_id

    def _new_connection(self) -> ConnectionId:
        connection, self._next_connection = ConnectionId(self._next_connection), self._next_connection + 1
        return connection


def _write_voter(writer: Writer, voter: Voter) -> None:
    writer.int32(voter.key.id).blob(voter.key.directory_id or ZERO_UUID).listeners(voter.listeners or NO_LISTENERS)
    writer.int32(voter.kraft_version.min_version, voter.kraft_version.max_version)
