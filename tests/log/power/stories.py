"""Short stories of what a node writes in its life, through the production classes, on a replica that says what holds.

`Told` is what the replica says: before a call that changes something, both states are allowed; after the call returned,
only the new one. The jobs go through `OrderedLane`, as those of a running node do. With `DyingFs` the process is killed
just before it syncs a directory.
"""

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any, Final, TypeAlias, cast

from pykraft.client.serde import bytes_serde
from pykraft.config import LogSettings, NodeConfig
from pykraft.core import effects
from pykraft.core.proof import PROVEN
from pykraft.core.quarantine import Quarantine
from pykraft.host.open import Opened, open_node
from pykraft.log.directory import format_directories
from pykraft.log.fs import Fs
from pykraft.log.lane import AppendBytes, Job
from pykraft.snapshot.download import Download
from pykraft.snapshot.files import checkpoint_path
from pykraft.snapshot.writer import SnapshotWriter, write_bootstrap
from pykraft.types import Election, Endpoint, Epoch, Io, NodeId, Offset, OffsetAndEpoch, ReplicaKey, Uuid, VoterSet
from tests.host.fakes import config
from tests.log.logs import Batch, batch, content, run_of
from tests.snapshot.snapshots import ID, VOTERS, small_batches


class Killed(BaseException):
    """Nothing that the node could catch."""


class DyingFs:
    """Passes everything on to ``fs``, up to its n-th sync of a directory: there it raises `Killed` instead."""

    def __init__(self, fs: Fs, *, syncs: int) -> None:
        self._fs = fs
        self._syncs_left = syncs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def sync_dir(self, path: Path) -> None:
        """See `Fs.sync_dir`."""
        self._syncs_left -= 1
        if self._syncs_left <= 0:
            raise Killed
        self._fs.sync_dir(path)


def dying(fs: Fs, *, syncs: int) -> Fs:
    """Kill the process at this sync of a directory, counted from 1."""
    return cast(Fs, DyingFs(fs, syncs=syncs))


Check: TypeAlias = Callable[[Opened], bool]
SMALL = LogSettings(
    segment_size_bytes=1_500, index_interval_bytes=300, index_size_bytes_max=240, scrub_bytes_per_s_max=0
)
"""Segments of a few batches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """From this number of system calls on ``check`` holds of the recovered node, until ``topic`` is told anew."""

    calls_count: int
    topic: str
    what: str
    check: Check


def replica_config(top: Path) -> NodeConfig:
    """A voter of three, whose log directory has yet to be made."""
    return replace(config(1), log_dir=top / "data", log=SMALL)


@dataclass(frozen=True, slots=True)
class Holding:
    """A log that begins at ``start`` and holds the first batches of ``batches``, at least those before ``until``."""

    start: int
    batches: tuple[Batch, ...]
    until: int

    def holds(self, node: Opened) -> bool:
        """True when the recovered log is such a log."""
        found = content(node.log)
        wanted = [(header, data) for header, data in self.batches if header.base_offset >= self.start]
        least = sum(header.base_offset < self.until for header, _ in wanted)
        is_prefix = found == [data for _, data in wanted[: len(found)]]
        return node.log.start_offset == self.start and is_prefix and len(found) >= least


class Replica:
    """A node that is written to, and its promises so far."""

    def __init__(self, fs: Fs, node_config: NodeConfig, promise: Callable[[str, str, Check], None]) -> None:
        self.fs = fs
        self.config = node_config
        self.promise = promise
        self.batches: list[Batch] = []
        self.start = 0
        self._io = count(1)
        self._election: Election | None = None
        self.node = open_node(fs, node_config, Random(1))

    @property
    def partition(self) -> Path:
        """The directory of the log."""
        return self.config.partition_directory

    @property
    def end(self) -> int:
        """The log's end, as it was told."""
        return self.batches[-1][0].end_offset if self.batches else self.start

    def perform(self, *jobs: Callable[[Io], Job]) -> None:
        """Give these jobs, which take their number, to the ordered lane."""
        self.node.lane.perform([job(Io(next(self._io))) for job in jobs])

    def tell_log(self, what: str, *holdings: Holding) -> None:
        """The log is one of these."""
        self.promise("log", what, lambda node: any(each.holds(node) for each in holdings))

    def holding(self) -> Holding:
        """The log as it was told, all of it durable."""
        return Holding(self.start, tuple(self.batches), self.end)

    def append(self, *batches: Batch) -> None:
        """One group of appends."""
        before = self.end
        self.batches += batches
        self.tell_log(f"batches up to {before} and perhaps more", replace(self.holding(), until=before))
        self.perform(lambda io: AppendBytes(io=io, batches=batches))
        self.tell_log(f"batches up to {self.end}", self.holding())

    def elect(self, epoch: int, *, voted: int | None = None, leader: int | None = None) -> None:
        """Write an election."""
        before = self._election
        election = self._election = Election(
            epoch=Epoch(epoch),
            leader_id=None if leader is None else NodeId(leader),
            voted=None if voted is None else ReplicaKey(NodeId(voted)),
        )
        self.promise(
            "election", f"{before} or {election}", lambda node: node.election in {before, election, Election()}
        )
        voters = self.config.voters.ids
        self.perform(lambda io: effects.WriteElectionState(io=io, election=election, voters=voters, kraft_version=0))
        self.promise("election", f"{election}", lambda node: node.election == election)

    def kill(self) -> None:
        """The process ends, and its locks with it; nothing is synced."""
        self.node.elections.close()
        self.node.directory.release()

    def start_again(self) -> None:
        """Open the node anew. What it then shows, it has made durable."""
        self.node = open_node(self.fs, self.config, Random(1))
        self._io = count(1)
        self.tell_log(f"batches up to {self.end}, which the next start showed", self.holding())

    def stop(self) -> None:
        """Close in order."""
        self.node.close()


@dataclass(slots=True)
class Promises:
    """All that was told, in order."""

    calls: Sequence[object]
    told: list[Told] = field(default_factory=list)

    def promise(self, topic: str, what: str, check: Check) -> None:
        """From the calls made so far on, this holds."""
        self.told.append(Told(calls_count=len(self.calls), topic=topic, what=what, check=check))

    def at(self, calls_count: int) -> dict[str, Told]:
        """What holds when the power goes after so many calls: of each topic what was told last."""
        return {each.topic: each for each in self.told if each.calls_count <= calls_count}


Tell: TypeAlias = Callable[[str, str, Check], None]
Story: TypeAlias = Callable[[Fs, NodeConfig, Tell], None]
SLICE_SIZE_BYTES: Final = 6_000
"""What one FetchSnapshot brings of a snapshot of 18 kB."""


def static_config(top: Path) -> NodeConfig:
    """A voter of three, which stand in the configuration."""
    return replica_config(top)


def dynamic_config(top: Path) -> NodeConfig:
    """A voter of a quorum whose voters stand in the log."""
    return replace(replica_config(top), voters=VoterSet(), bootstrap_servers=(Endpoint("localhost", 9_001),))


def formatted(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """An operator formats the disk: from then on the directory is proven to be this voter's, and stays it."""
    assert node_config.node_id is not None
    directory_id = node_config.directory_id
    assert directory_id is not None
    is_dynamic = not node_config.voters.ids
    promise("voters", "who votes is known once the disk is formatted", _knows_voters(is_dynamic=is_dynamic))
    format_directories(
        fs,
        [node_config.log_dir],
        node_id=node_config.node_id,
        cluster_id=node_config.cluster_id,
        directory_ids={node_config.log_dir: directory_id},
        ignore_formatted=False,
        random_uuid=lambda: Uuid(b"\7" * 16),
        before_metadata=lambda: write_bootstrap(fs, node_config.partition_directory, VOTERS) if is_dynamic else None,
    )
    promise("proof", "the disk is formatted", lambda node: node.proving.proof.is_complete)
    promise("identity", "the directory id", lambda node: node.directory.directory_id == directory_id)


def _knows_voters(*, is_dynamic: bool) -> Check:
    def check(node: Opened) -> bool:
        # An unformatted disk of a dynamic quorum knows no voters, and is not proven.
        return not is_dynamic or not node.proving.proof.is_complete or node.voter_history.voters == VOTERS

    return check


def first_start(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """Format, start, vote, stop, and start again."""
    formatted(fs, node_config, promise)
    replica = Replica(fs, node_config, promise)
    replica.elect(1, voted=2)
    replica.elect(1, leader=2)
    replica.elect(2, voted=1)
    replica.stop()
    replica.start_again()
    replica.elect(5, leader=3)
    replica.kill()


def killed_in_each_start(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """Each start is killed one directory later than the one before. What the first that lives tells is durable."""
    formatted(fs, node_config, promise)
    for syncs in count(1):
        try:
            Replica(dying(fs, syncs=syncs), node_config, promise).kill()
        except Killed:
            continue
        break
    replica = Replica(fs, node_config, promise)
    replica.elect(1, leader=2)
    replica.append(*run_of(0, 2))
    replica.kill()


def unproven(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """A disk that nobody formatted is not proven before the core says so, wherever the first start ended."""
    promise("proof", "nothing proves the directory yet", lambda node: not node.proving.proof.is_complete)
    replica = Replica(fs, node_config, promise)
    replica.elect(4, leader=2)
    replica.append(*run_of(0, 2, epoch=4))
    promise("proof", "the proof is on its way", lambda _: True)
    proof = replace(PROVEN, votes_above=Epoch(4))
    replica.perform(lambda io: effects.NoteProof(io=io, votes_above=proof.votes_above))
    promise("proof", f"{proof}", lambda node: node.proving.proof == proof)
    replica.append(*run_of(2, 2, epoch=4))
    replica.kill()


def appended_and_truncated(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """Groups of appends over several segments, then truncations within and across segments, and other batches."""
    formatted(fs, node_config, promise)
    replica = Replica(fs, node_config, promise)
    replica.elect(1, leader=2)
    for first in range(0, 24, 4):
        replica.append(*run_of(first, 4, size_bytes=150, fill=1))
    replica.node.lane.settle()
    for epoch, offset in ((2, 22), (3, 9), (4, 4)):
        replica.elect(epoch, leader=3)
        _truncate(replica, offset)
        replica.append(*run_of(offset, 5, epoch=epoch, size_bytes=150, fill=epoch))
    replica.stop()
    replica.start_again()
    replica.append(batch(replica.end, epoch=4, size_bytes=9_000), *run_of(replica.end + 1, 2, epoch=4, size_bytes=900))
    replica.kill()


def _truncate(replica: Replica, offset: int) -> None:
    before = tuple(replica.batches)
    replica.batches = [each for each in before if each[0].base_offset < offset]
    replica.tell_log(f"batches up to {offset} and perhaps those behind", Holding(replica.start, before, offset))
    replica.perform(lambda io: effects.TruncateTo(io=io, end_offset=Offset(offset)))
    replica.tell_log(f"batches up to {offset} alone", replica.holding())


def killed(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """A process is killed before it synced, with a torn batch at the end. What the next start shows stays."""
    formatted(fs, node_config, promise)
    replica = Replica(fs, node_config, promise)
    replica.elect(1, leader=2)
    replica.append(*run_of(0, 3, size_bytes=150))
    for round_number in range(2):
        durable, unsynced = replica.end, run_of(replica.end, 9, size_bytes=200, fill=round_number)
        replica.batches += unsynced
        replica.tell_log("perhaps what was not synced", replace(replica.holding(), until=durable))
        replica.node.log.append(unsynced)
        segment = replica.node.log.views()[-1]
        fs.open(segment.path, write=True).pwrite([batch(replica.end)[1][:-7]], segment.size_bytes)
        replica.kill()
        replica.start_again()
        replica.append(*run_of(replica.end, 2))
    replica.kill()


def quarantined(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """A quarantine begins before the log is cut, and ends when what was lost is back."""
    formatted(fs, node_config, promise)
    replica = Replica(fs, node_config, promise)
    replica.elect(2, leader=2)
    replica.append(*run_of(0, 6, epoch=2, size_bytes=150))
    note = Quarantine(epoch=Epoch(2), until_offset=Offset(6), is_cut=True, damages=())
    promise("quarantine", "perhaps", lambda node: node.view.quarantine in {None, note})
    replica.perform(lambda io: effects.EnterQuarantine(io=io, quarantine=note, end_offset=Offset(0)))
    promise("quarantine", "it is noted", lambda node: node.view.quarantine == note)
    _truncate(replica, 3)
    replica.append(*run_of(3, 3, epoch=2, size_bytes=150))
    promise("quarantine", "perhaps", lambda node: node.view.quarantine in {None, note})
    replica.perform(lambda io: effects.LeaveQuarantine(io=io))
    promise("quarantine", "it is over", lambda node: node.view.quarantine is None)
    replica.append(*run_of(6, 1, epoch=2))
    replica.kill()


def cleaned(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """Snapshots are written and frozen; the log is cleaned behind them, and the older of them goes."""
    formatted(fs, node_config, promise)
    replica = Replica(fs, node_config, promise)
    replica.elect(1, leader=2)
    replica.append(*run_of(0, 12, size_bytes=200))
    replica.append(*run_of(12, 12, size_bytes=200))
    older, newer = (OffsetAndEpoch(Offset(offset), Epoch(1)) for offset in (9, 20))
    for snapshot_id in (older, newer):
        _freeze(replica, snapshot_id)
        _clean(replica, snapshot_id)
    catalog = replica.node.snapshot_files.catalog
    catalog.retire_before(newer)
    promise("retired", f"{older} is gone", lambda node: older not in node.snapshot_files.catalog.ids)
    replica.append(*run_of(24, 3, size_bytes=200))
    replica.kill()


def _freeze(replica: Replica, snapshot_id: OffsetAndEpoch) -> None:
    writer = SnapshotWriter(
        replica.fs, replica.partition, snapshot_id, bytes_serde, last_contained_log_timestamp=1_000_000
    )
    writer.append([b"a" * 5_000, b"b" * 5_000])
    writer.freeze()
    with closing(replica.fs.open(checkpoint_path(replica.partition, snapshot_id))) as file:
        data = file.pread(file.size(), 0)
    replica.promise("snapshot", f"{snapshot_id} is frozen", _has_snapshot(snapshot_id, data))
    replica.node.snapshot_files.catalog.add(snapshot_id)


def _has_snapshot(snapshot_id: OffsetAndEpoch, data: bytes) -> Check:
    def check(node: Opened) -> bool:
        if snapshot_id not in node.snapshot_files.catalog.ids:
            return False
        files = node.snapshot_files
        with closing(files.fs.open(checkpoint_path(files.directory, snapshot_id))) as file:
            return file.pread(len(data) + 1, 0) == data

    return check


def _clean(replica: Replica, snapshot_id: OffsetAndEpoch) -> None:
    """The log starts at the segment that holds the snapshot's end; a crash may leave any segment before it, too."""
    bases = [view.base_offset for view in replica.node.log.views()]
    kept = max(base for base in bases if base <= snapshot_id.offset)
    whole = replica.holding()
    replica.tell_log("some segments fewer", *(replace(whole, start=base) for base in bases if base <= kept))
    replica.perform(lambda io: effects.MoveLogStart(io=io, snapshot_id=snapshot_id))
    replica.start = kept
    replica.tell_log(f"a log that starts at {kept}", replica.holding())


def installed(fs: Fs, node_config: NodeConfig, promise: Tell) -> None:
    """A snapshot is fetched, with a restart half-way, and takes the place of the log."""
    formatted(fs, node_config, promise)
    data = small_batches()
    replica = Replica(fs, node_config, promise)
    replica.elect(3, leader=2)
    replica.append(*run_of(0, 12, epoch=2, size_bytes=200))
    download = Download(fs, replica.partition, ID, leader_epoch=Epoch(3))
    for start in range(0, 2 * SLICE_SIZE_BYTES, SLICE_SIZE_BYTES):
        download.append(data[start : start + SLICE_SIZE_BYTES])
    download.close()
    replica.kill()
    replica.start_again()
    download = Download(fs, replica.partition, ID, leader_epoch=Epoch(3))
    while not download.catch_up():
        pass
    while not download.is_whole:
        download.append(data[download.position : download.position + SLICE_SIZE_BYTES])
    empty = Holding(ID.offset, (), ID.offset)
    replica.tell_log("the log, or nothing behind the snapshot", replica.holding(), empty)
    download.freeze()
    # Every start from here on finds a snapshot that holds more than the log, and goes on with the install.
    replica.promise("snapshot", f"{ID} is fetched", _has_snapshot(ID, data))
    replica.tell_log("nothing behind the snapshot", empty)
    replica.batches, replica.start = [], ID.offset
    replica.node.snapshot_files.catalog.add(ID)
    replica.perform(lambda io: effects.InstallSnapshot(io=io, snapshot_id=ID))
    replica.append(*run_of(ID.offset, 9, epoch=3, size_bytes=200))
    replica.kill()


STORIES: Final[dict[str, tuple[Story, Callable[[Path], NodeConfig]]]] = {
    "first start, static": (first_start, static_config),
    "first start, dynamic": (first_start, dynamic_config),
    "killed in each start": (killed_in_each_start, static_config),
    "unproven": (unproven, static_config),
    "appended and truncated": (appended_and_truncated, static_config),
    "killed": (killed, static_config),
    "quarantined": (quarantined, static_config),
    "cleaned": (cleaned, static_config),
    "installed": (installed, static_config),
}
"""By name: the story, and the configuration of its node."""
