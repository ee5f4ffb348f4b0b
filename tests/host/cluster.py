"""A few hosts in one thread: frames, disks and time move only when a test lets them.

Nothing is random but the hosts' own seeded generators: the same test is the same run. A network of TCP-like
connections: in order and whole, until they break; a cut holds back what is sent over it. A disk writes at once
unless it is stalled; a crash keeps the page cache, as kill -9 does. Every request is looked at on its way out: it may
say nothing that is not durable.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pykraft.config import NodeConfig
from pykraft.core.effects import InstallSnapshot, TruncateTo, WriteElectionState
from pykraft.host.host import Host
from pykraft.host.ports import ConnectionId
from pykraft.host.producers import ProposalOutcome
from pykraft.log.directory import format_directories
from pykraft.log.lane import AppendBytes, Job
from pykraft.protocol.api import ApiKey, decode_request_body, decode_request_header
from pykraft.protocol.batch import scan
from pykraft.protocol.schema import Body
from pykraft.types import Buffer, Endpoint, Instant, Uuid
from tests.disks import ScriptedDisk
from tests.host.fakes import LISTENER, FakeListener, FakePorts, at, config

EPOCH_FIELDS = {
    ApiKey.VOTE: "replica_epoch",
    ApiKey.BEGIN_QUORUM_EPOCH: "leader_epoch",
    ApiKey.END_QUORUM_EPOCH: "leader_epoch",
    ApiKey.FETCH: "current_leader_epoch",
}
"""Where a request has its sender's epoch."""


@dataclass(slots=True, eq=False)
class Wire:
    """One TCP connection; ``held`` waits for a cut to heal: sender's side and frame."""

    dialer: Machine
    accepter: Machine
    id: ConnectionId
    held: deque[tuple[Machine, bytes]]


def is_acknowledgement(fetch: Body) -> bool:
    """False for the Fetch of somebody without an id, who promises nothing: an observer, or an unproven replica."""
    return bool(max(fetch["replica_id"], fetch["replica_state"]["replica_id"]) >= 0)


class Machine(FakePorts):
    """One node's ports, disk and, while it runs, host."""

    def __init__(self, cluster: Cluster, node_id: int, node_config: NodeConfig) -> None:
        super().__init__()
        self.cluster = cluster
        self.config = node_config
        self.node_id = node_id
        self.fs = ScriptedDisk()
        self.host: Host | None = None
        self.listener = FakeListener()
        self.is_disk_stalled = False
        self.durable_epoch = 0
        self.durable_end_offset = 0

    @property
    def running(self) -> Host:
        assert self.host is not None, f"node {self.node_id} is down"
        return self.host

    def start(self) -> None:
        """Start the program on what the disk holds, with a new listener."""
        self.host = Host.open(self.fs, self, self.config, rng=Random(self.node_id + self.cluster.now.mono_ms))
        self.durable_epoch, self.durable_end_offset = 0, int(self.host.status.log_end_offset)
        self.listener = FakeListener()
        self.host.register(self.listener)
        self.host.start(self.cluster.now)

    def crash(self) -> None:
        """Kill -9."""
        self.fs.kill()
        self._forget()

    def wipe(self) -> None:
        """The disk is emptied while the program does not run."""
        self.fs = ScriptedDisk()

    def format(self) -> None:
        """What ``pykraft storage format`` does: the operator vouches for the empty disk."""
        assert self.config.node_id is not None
        format_directories(
            self.fs,
            [self.config.log_dir],
            node_id=self.config.node_id,
            cluster_id=self.config.cluster_id,
            directory_ids={self.config.log_dir: self.config.directory_id} if self.config.directory_id else {},
            ignore_formatted=False,
            random_uuid=lambda: Uuid(bytes([self.node_id]) * 16),
        )

    def leave(self) -> None:
        """The end of a graceful shutdown: close the files."""
        self.flush()
        self.running.close()
        self._forget()

    def flush(self) -> None:
        """Let the disk do everything that waits for it."""
        if self.jobs:
            jobs, self.jobs = self.jobs, []
            io = self.running.lane.perform(jobs)
            for job in jobs:
                self._note_durable(job)
            self.running.on_io(io, self.cluster.now)

    def propose(self, *values: bytes) -> list[ProposalOutcome]:
        """Propose in the present epoch; the outcome will be in the list."""
        outcomes: list[ProposalOutcome] = []
        host = self.running
        host.propose(values, epoch=host.status.epoch, now=self.cluster.now, on_outcome=outcomes.append)
        return outcomes

    def log_bytes(self) -> bytes:
        """All batches in the files."""
        directory = self.config.partition_directory
        names = [name for name in self.fs.listdir(directory) if name.endswith(".log")]
        return b"".join(self.fs.read(directory / name) for name in names)

    def epochs_in_log(self) -> list[int]:
        """The epoch of every batch in the files."""
        return [header.epoch for _, header in scan(self.log_bytes())]

    def dial(self, endpoint: Endpoint) -> ConnectionId:
        return self.cluster.dial(self, endpoint.port - 9000)

    def send(self, connection: ConnectionId, parts: Sequence[Buffer]) -> None:
        super().send(connection, parts)
        frame = self.sent[-1][1]
        if self.cluster.is_dialed_by(self, connection):
            self._check_spoken(frame)
        self.cluster.send(self, connection, frame)

    def close(self, connection: ConnectionId) -> None:
        self.cluster.break_wire(connection, closed_by=self)

    def _note_durable(self, job: Job) -> None:
        match job:
            case WriteElectionState():
                self.durable_epoch = job.election.epoch
            case AppendBytes():
                self.durable_end_offset = job.batches[-1][0].end_offset
            case TruncateTo():
                self.durable_end_offset = job.end_offset
            case InstallSnapshot():
                self.durable_end_offset = job.snapshot_id.offset

    def _check_spoken(self, frame: bytes) -> None:
        """Nothing is said that the disk would not say again: the epoch, and what a Fetch acknowledges."""
        header = decode_request_header(frame)
        field = EPOCH_FIELDS.get(ApiKey(header.api_key))
        if field is None:
            return
        body = decode_request_body(header, frame)
        partition = body["topics"][0]["partitions"][0]
        assert partition[field] <= self.durable_epoch, "an epoch is spoken of before it is durable"
        if header.api_key == ApiKey.FETCH and is_acknowledgement(body):
            assert partition["fetch_offset"] <= self.durable_end_offset, "a record is acknowledged before it is durable"

    def _forget(self) -> None:
        self.host = None
        self.jobs, self.reads, self.wake_ms = [], [], None
        self.cluster.break_all(self)


class Cluster:
    """So many voters, and a network between them."""

    def __init__(self, voters: int = 3, **raft: Any) -> None:
        self.now: Instant = at(0)
        self.machines = {
            node_id: Machine(self, node_id, config(node_id, voters=voters, **raft)) for node_id in range(1, voters + 1)
        }
        self._wires: dict[ConnectionId, Wire] = {}
        self._cut: set[frozenset[int]] = set()
        self._due: deque[Callable[[], None]] = deque()
        self._next = 1
        for machine in self.machines.values():
            machine.start()

    def add(self, node_id: int, node_config: NodeConfig) -> Machine:
        """One more machine, which starts at once; ``node_id`` says where it stands, not who it claims to be."""
        machine = self.machines[node_id] = Machine(self, node_id, node_config)
        machine.start()
        return machine

    def __getitem__(self, node_id: int) -> Machine:
        return self.machines[node_id]

    @property
    def up(self) -> list[Machine]:
        """Machines whose program runs."""
        return [machine for machine in self.machines.values() if machine.host is not None]

    def leader(self) -> Machine:
        """The leader of the highest epoch, which all others follow; time passes until there is one."""

        def leading() -> Machine | None:
            newest = max(self.up, key=lambda machine: machine.running.status.epoch)
            leader = self.machines.get(newest.running.status.leader_id or 0)
            return leader if leader is not None and leader.host and leader.host.status.role == "leader" else None

        self.run_until(lambda: leading() is not None)
        leader = leading()
        assert leader is not None
        return leader

    def others(self, machine: Machine) -> list[Machine]:
        """All machines but this one."""
        return [other for other in self.machines.values() if other is not machine]

    def run_until(self, is_done: Callable[[], bool], *, limit_ms: int = 60_000) -> None:
        """Let everything happen, time pass included, until this holds."""
        end_ms = self.now.mono_ms + limit_ms
        while not is_done():
            if self._turn():
                continue
            wakes = [machine.wake_ms for machine in self.up if machine.wake_ms is not None]
            next_ms = max(self.now.mono_ms + 1, min(wakes, default=end_ms))
            assert next_ms <= end_ms, f"it has not happened in {limit_ms} ms"
            self.now = at(next_ms)
            for machine in self.up:
                if machine.wake_ms is not None and machine.wake_ms <= next_ms:
                    machine.running.on_tick(self.now)

    def run(self, duration_ms: int) -> None:
        """Let this much time pass."""
        end_ms = self.now.mono_ms + duration_ms
        self.run_until(lambda: self.now.mono_ms >= end_ms)

    def settle(self) -> None:
        """Let happen whatever happens without time."""
        while self._turn():
            pass

    def run_until_committed(self, end_offset: int, *machines: Machine) -> None:
        """Until these listeners (or all) were given everything below ``end_offset``."""
        waiting = machines or tuple(self.up)

        def done() -> bool:
            ends = (machine.listener.batches[-1:] for machine in waiting)
            return all(end and end[0].end_offset >= end_offset for end in ends)

        self.run_until(done)

    def cut(self, machine: Machine) -> None:
        """Nothing goes to or from this machine any more."""
        self._cut |= {frozenset((machine.node_id, other.node_id)) for other in self.others(machine)}

    def heal(self) -> None:
        """All links work again; what was held back arrives late."""
        self._cut.clear()
        for wire in list(self._wires.values()):
            held, wire.held = wire.held, deque()
            for sender, frame in held:
                self.send(sender, wire.id, frame)

    def break_all(self, machine: Machine | None = None) -> None:
        """Break every connection, or those of one machine."""
        for wire in list(self._wires.values()):
            if machine is None or machine in (wire.dialer, wire.accepter):
                self.break_wire(wire.id, closed_by=None)

    def dial(self, dialer: Machine, target_id: int) -> ConnectionId:
        connection = ConnectionId(self._next)
        self._next += 1
        target = self.machines[target_id]
        self._wires[connection] = Wire(dialer, target, connection, deque())

        def connect() -> None:
            if connection not in self._wires or dialer.host is None:
                return
            if target.host is None or self._is_cut(dialer, target):
                del self._wires[connection]
                dialer.host.on_closed(connection, self.now)
                return
            target.host.on_accepted(connection, LISTENER, self.now)
            dialer.host.on_connected(connection, self.now)

        self._due.append(connect)
        return connection

    def send(self, sender: Machine, connection: ConnectionId, frame: bytes) -> None:
        wire = self._wires.get(connection)
        if wire is None:
            return
        receiver = wire.accepter if sender is wire.dialer else wire.dialer

        def arrive() -> None:
            if self._wires.get(connection) is not wire or receiver.host is None:
                return
            if self._is_cut(sender, receiver):
                wire.held.append((sender, frame))
            else:
                receiver.host.on_frame(connection, frame, self.now)

        self._due.append(arrive)

    def is_dialed_by(self, machine: Machine, connection: ConnectionId) -> bool:
        wire = self._wires.get(connection)
        return wire is not None and wire.dialer is machine

    def break_wire(self, connection: ConnectionId, *, closed_by: Machine | None) -> None:
        """Both ends hear of it, but for the one that did it."""
        wire = self._wires.pop(connection, None)
        for end in (wire.dialer, wire.accepter) if wire else ():
            if end is not closed_by:
                self._due.append(lambda end=end: end.host and end.host.on_closed(connection, self.now))  # type: ignore[misc]

    def _is_cut(self, one: Machine, other: Machine) -> bool:
        return frozenset((one.node_id, other.node_id)) in self._cut

    def _turn(self) -> bool:
        """Deliver what is on its way, then let disks write and read; False when there was nothing to do."""
        if self._due:
            self._due.popleft()()
            return True
        for machine in self.up:
            if machine.jobs and not machine.is_disk_stalled:
                machine.flush()
                return True
            if machine.reads:
                machine.finish_read()
                return True
        return False
