"""A world made of lists: whatever a host asks for is noted, and nothing happens unless a test does it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pykraft import types
from pykraft.config import LogSettings, NodeConfig, RaftConfig
from pykraft.core.effects import NotifyLeaderChange, Report
from pykraft.host.delivery import CommittedBatch
from pykraft.host.fetch_read import HeaderAndBytes
from pykraft.host.ports import CheckInSteps, ConnectionId, run_steps
from pykraft.host.snapshots.files import SnapshotFiles
from pykraft.log.fs import Fs
from pykraft.log.lane import Job
from pykraft.log.os_fs import OsFs
from pykraft.log.segment import SegmentView
from pykraft.protocol.api import FrameReader
from pykraft.protocol.batch import scan
from pykraft.protocol.records import encode_batch
from pykraft.rpc.context import RpcContext
from pykraft.snapshot.catalog import Catalog

T = TypeVar("T")
LISTENER = "CONTROLLER"
CLUSTER_ID = "a-cluster"
TOPIC_NAME = "a-topic"
TOPIC_ID = types.Uuid(bytes(15) + b"\7")
CONTEXT = RpcContext(cluster_id=CLUSTER_ID, topic_name=TOPIC_NAME, topic_id=TOPIC_ID, default_listener=LISTENER)
DIRECTORY = Path("/data")


def at(mono_ms: int) -> types.Instant:
    """A moment; wall time is far from mono time, so that a mix-up shows."""
    return types.Instant(mono_ms=mono_ms, wall_ms=1_000_000_000_000 + mono_ms)


def endpoint(node_id: int) -> types.Endpoint:
    """Every node listens at its own port."""
    return types.Endpoint(f"node{node_id}", 9000 + node_id)


def listeners(node_id: int) -> types.Listeners:
    """The one listener of a node."""
    return types.Listeners(((LISTENER, endpoint(node_id)),))


def config(node_id: int, *, voters: int = 3, **raft: Any) -> NodeConfig:
    """A node of a quorum of so many voters, with small files."""
    members = types.VoterSet.of(
        types.Voter(key=types.ReplicaKey(types.NodeId(voter)), listeners=listeners(voter))
        for voter in range(1, voters + 1)
    )
    return NodeConfig(
        node_id=types.NodeId(node_id),
        cluster_id=CLUSTER_ID,
        directory_id=types.Uuid(bytes([100 + node_id]) * 16),
        listeners=listeners(node_id),
        advertised_listeners=listeners(node_id),
        controller_listener_names=(LISTENER,),
        voters=members,
        log_dir=DIRECTORY,
        topic_name=TOPIC_NAME,
        topic_id=TOPIC_ID,
        log=LogSettings(segment_size_bytes=4_096, index_size_bytes_max=1_200, scrub_bytes_per_s_max=0),
        raft=RaftConfig(**{"append_linger_ms": 0, **raft}),
    )


def batch(base_offset: int, *values: bytes, epoch: int = 1) -> HeaderAndBytes:
    """One batch of these values; of one value that names the offset when there are none."""
    return encode_batch(
        values or (b"value %d" % base_offset,),
        base_offset=types.Offset(base_offset),
        epoch=types.Epoch(epoch),
        timestamp_ms=5,
    )


def snapshot_files(*ids: tuple[int, int], fs: Fs | None = None, has_bootstrap: bool = False) -> SnapshotFiles:
    """The snapshots of a node: of these offsets and epochs, in the files of this system or in none."""
    found = [types.OffsetAndEpoch(types.Offset(offset), types.Epoch(epoch)) for offset, epoch in ids]
    files = fs or OsFs()
    catalog = Catalog(files, DIRECTORY, found)
    return SnapshotFiles(
        fs=files, directory=DIRECTORY, catalog=catalog, settings=LogSettings(), has_bootstrap=has_bootstrap
    )


def joined(batches: Sequence[HeaderAndBytes]) -> bytes:
    """The bytes of these batches."""
    return b"".join(bytes(data) for _, data in batches)


class FakeLog:
    """A log of batches that are there, for what only reads."""

    generation = 0

    def __init__(self, batches: Sequence[HeaderAndBytes] = ()) -> None:
        self.batches = list(batches)
        self.asked: list[types.Offset] = []
        self.committed: list[types.Offset] = []

    def commit_to(self, offset: types.Offset) -> None:
        """See `Log.commit_to`."""
        self.committed.append(offset)

    def views(self) -> Sequence[SegmentView]:
        """See `Log.views`: no file to scrub."""
        return ()

    def read(self, offset: types.Offset, size_bytes_max: int) -> types.Buffer:
        """See `Log.read`."""
        self.asked.append(offset)
        found = b""
        for header, data in self.batches:
            if header.end_offset > offset and (not found or len(found) + len(data) <= size_bytes_max):
                found += bytes(data)
        return found


class FakePorts:
    """See `pykraft.host.ports.Ports`. Frames in ``sent`` come without their length."""

    def __init__(self) -> None:
        self.dialed: list[tuple[ConnectionId, types.Endpoint]] = []
        self.sent: list[tuple[ConnectionId, bytes]] = []
        self.closed: list[ConnectionId] = []
        self.received: dict[ConnectionId, tuple[int, int]] = {}
        self.unsent: dict[ConnectionId, int] = {}
        self.jobs: list[Job] = []
        self.reads: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []
        self.checks: list[CheckInSteps] = []
        self.wake_ms: int | None = None
        self.reports: list[str] = []
        self.kinds: list[types.ReportKind] = []
        self.alarms: list[str] = []
        self.stops: list[Exception | None] = []

    def dial(self, endpoint: types.Endpoint) -> ConnectionId:
        connection = ConnectionId(1000 + len(self.dialed))
        self.dialed.append((connection, endpoint))
        return connection

    def send(self, connection: ConnectionId, parts: Sequence[types.Buffer]) -> None:
        # No parts: a request that wants no answer is done.
        (frame,) = FrameReader(2**24).feed(b"".join(parts)) if parts else (b"",)
        self.sent.append((connection, bytes(frame)))

    def received_size_bytes(self, connection: ConnectionId) -> tuple[int, int]:
        return self.received.get(connection, (0, 0))

    def unsent_size_bytes(self, connection: ConnectionId) -> int:
        return self.unsent.get(connection, 0)

    def close(self, connection: ConnectionId) -> None:
        self.closed.append(connection)

    def submit(self, job: Job) -> None:
        self.jobs.append(job)

    def submit_read(self, read: Callable[[], T], then: Callable[[T], None]) -> None:
        self.reads.append((read, then))

    def submit_check(self, check: CheckInSteps) -> None:
        self.checks.append(check)
        self.reads.append((lambda: run_steps(check.steps), check.ended))

    def wake_at(self, mono_ms: int | None) -> None:
        self.wake_ms = mono_ms

    def report(self, report: Report) -> None:
        self.kinds.append(report.kind)
        self.reports.append(report.text)
        if report.is_alarm:
            self.alarms.append(report.text)

    def stop(self, error: Exception | None) -> None:
        self.stops.append(error)

    def finish_read(self) -> None:
        """Carry out the oldest read, all of it."""
        read, then = self.reads.pop(0)
        then(read())


class FakeListener:
    """Notes what it is given."""

    def __init__(self) -> None:
        self.calls: list[tuple[int, ...] | tuple[str, int, int | None]] = []
        self.batches: list[CommittedBatch] = []
        self.on_each: Callable[[], None] = lambda: None

    def on_commit(self, batches: Sequence[CommittedBatch]) -> None:
        self.batches += batches
        self.calls.append(tuple(one.base_offset for one in batches))
        self.on_each()

    def on_leader_change(self, epoch: types.Epoch, leader_id: types.NodeId | None) -> None:
        self.calls.append(("leader", epoch, leader_id))

    @property
    def values(self) -> list[bytes]:
        """All values so far."""
        return [value for one in self.batches for value in one.values()]


def leads(epoch: int, *, leader_id: int | None, epoch_start_offset: int | None = None) -> NotifyLeaderChange:
    """News of a leader."""
    return NotifyLeaderChange(
        epoch=types.Epoch(epoch),
        leader_id=None if leader_id is None else types.NodeId(leader_id),
        epoch_start_offset=None if epoch_start_offset is None else types.Offset(epoch_start_offset),
    )


def offsets_of(records: Sequence[types.Buffer] | None) -> list[int] | None:
    """Base offsets of the batches in these records."""
    if records is None:
        return None
    return [header.base_offset for _, header in scan(b"".join(bytes(part) for part in records))]
