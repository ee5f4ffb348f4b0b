"""Plans an audit: which replicas there are, and which bytes a task reads. Only names, sizes and small files are read.

The directories are one of each replica of one cluster, all of them log directories or all partitions. A task reads a
snapshot or a segment, so the number of tasks follows from the names alone.

A node may write meanwhile. The tasks read its log up to the size that the plan has; a recovery point or an epoch of a
moment later would call the rest lost. Invariant: no file in `EarlierFiles` is younger than the sizes in the plan.

Source: KIP-631 (``cluster.id`` in meta.properties); ours.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from pykraft.errors import ForeignClusterError, StorageError, UsageError
from pykraft.log.directory import meta_in
from pykraft.log.fs import File, Fs
from pykraft.log.index import OFFSET_ENTRY, index_entries
from pykraft.log.offline.verify import partitions_in
from pykraft.log.paths import LOG, OFFSET_INDEX, base_offsets_in, parse_checkpoint, segment_file, snapshot_ids_in
from pykraft.log.small_files import epoch_checkpoint, recovery_point
from pykraft.types import Offset

DIGESTS_MAX: Final = 65_536
"""About so many digests of one log come back to the driver, however large it is."""
DIGEST_SIZE_BYTES_MIN: Final = 1024 * 1024
DIGEST_OFFSETS_MIN: Final = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditedPartition:
    """A partition directory, and the replica whose it is: the directory that the user named."""

    replica: str
    path: Path
    names: tuple[str, ...]
    segments: tuple[tuple[Offset, int], ...]
    """Base offset, and size in bytes, ascending."""

    @property
    def base_offsets(self) -> list[Offset]:
        return [base_offset for base_offset, _ in self.segments]

    @property
    def size_bytes(self) -> int:
        return sum(size for _, size in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentTask:
    """Check a segment, up to the size that it had when it was planned."""

    partition: Path
    base_offset: Offset
    size_bytes: int
    digest_offsets: int
    """A digest is about the batches that begin at this many offsets."""
    probes: tuple[Offset, ...]
    """Ends of snapshots: what does the log say about the record before?"""
    has_journal: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotTask:
    """Check a snapshot."""

    path: Path


def find_partitions(fs: Fs, directory: Path) -> list[AuditedPartition]:
    """The Raft partitions of a replica, in a log directory or given themselves. Errors: StorageError; UsageError."""
    return [_partition(fs, str(directory), path) for path in partitions_in(fs, directory)]


def _partition(fs: Fs, replica: str, path: Path) -> AuditedPartition:
    names = tuple(fs.listdir(path))
    segments = tuple((offset, _size(fs, path / segment_file(offset, LOG))) for offset in base_offsets_in(names))
    return AuditedPartition(replica=replica, path=path, names=names, segments=segments)


def _size(fs: Fs, path: Path) -> int:
    with closing(fs.open(path)) as file:
        return file.size()


def digest_offsets(fs: Fs, partitions: Sequence[AuditedPartition]) -> int:
    """How many offsets one digest covers; the same for all replicas, or their digests could not be compared."""
    widest = DIGEST_OFFSETS_MIN
    for partition in partitions:
        digests = min(DIGESTS_MAX, max(1, partition.size_bytes // DIGEST_SIZE_BYTES_MIN))
        offsets = _last_indexed(fs, partition) - min(partition.base_offsets, default=Offset(0))
        widest = max(widest, offsets // digests)
    return widest


def _last_indexed(fs: Fs, partition: AuditedPartition) -> int:
    """The newest offset that an index or a name knows: an estimate, since an index may be wrong."""
    if not partition.segments:
        return 0
    base_offset, size_bytes = partition.segments[-1]
    path = partition.path / segment_file(base_offset, OFFSET_INDEX)
    try:
        with closing(fs.open(path)) as file:
            delta = max((entry[0] for _, entry in index_entries(file, OFFSET_ENTRY)), default=0)
    except StorageError:
        delta = 0
    # An offset takes some bytes, so a damaged entry cannot make the digests arbitrarily wide.
    return base_offset + min(max(delta, 0), size_bytes)


def tasks_of(
    partition: AuditedPartition, *, offsets_a_digest: int, has_journal: bool
) -> Iterator[SegmentTask | SnapshotTask]:
    """What is to be read of a partition, in the order of the log; then its snapshots."""
    probes = tuple(found.offset for found in snapshot_ids_in(partition.names))
    for base_offset, size_bytes in partition.segments:
        yield SegmentTask(
            partition=partition.path,
            base_offset=base_offset,
            size_bytes=size_bytes,
            digest_offsets=offsets_a_digest,
            probes=probes,
            has_journal=has_journal,
        )
    for name in partition.names:
        if parse_checkpoint(name):
            yield SnapshotTask(path=partition.path / name)


KEPT: Final = (recovery_point.FILE_NAME, epoch_checkpoint.FILE_NAME)


class EarlierFiles:
    """Reads as another file system does, but for the files in `KEPT`. See `Fs`."""

    def __init__(self, fs: Fs, partitions: Iterable[Path]) -> None:
        """Read those files now; one that cannot be read is left to who wants it."""
        self._fs = fs
        self._kept: dict[Path, bytes] = {}
        for path in (partition / name for partition in partitions for name in KEPT):
            with suppress(StorageError), closing(fs.open(path)) as file:
                # A file as large as this is no longer of use: `verify` tells it.
                self._kept[path] = file.pread(min(file.size(), epoch_checkpoint.SIZE_BYTES_MAX + 1), 0)

    def as_fs(self) -> Fs:
        return cast("Fs", self)

    def open(self, path: Path) -> File:
        kept = self._kept.get(path)
        return self._fs.open(path) if kept is None else cast("File", _Kept(kept))

    def read(self, path: Path) -> bytes:
        kept = self._kept.get(path)
        return self._fs.read(path) if kept is None else kept

    def __getattr__(self, name: str) -> object:
        return getattr(self._fs, name)


class _Kept:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def pread(self, size_bytes: int, position: int) -> bytes:
        return self._content[position : position + size_bytes]

    def size(self) -> int:
        return len(self._content)

    def close(self) -> None:
        """Nothing is open."""


GIVEN: Final = ""
"""Group of the partitions that were given themselves."""


def replicas_of(fs: Fs, directories: Sequence[Path]) -> tuple[Fs, dict[str, list[AuditedPartition]]]:
    """The partitions in the directories, those that are compared under one name, and the files to judge them by.

    Errors: UsageError when one is no log directory, or is given twice, or is of another kind; ForeignClusterError when
    they name different clusters; StorageError.
    """
    if len({path.resolve() for path in directories}) < len(directories):
        raise UsageError("a directory is given twice; give that of each replica once")
    _refuse_two_clusters(fs, directories)
    groups: dict[str, list[AuditedPartition]] = defaultdict(list)
    # First what tells how far a log reaches, then its size.
    files = EarlierFiles(fs, (path for each in directories for path in partitions_in(fs, each)))
    for directory in directories:
        for one in find_partitions(fs, directory):
            # Partitions of one name are compared; copies that were given themselves may have any name.
            groups[GIVEN if one.path == directory else one.path.name].append(one)
    if GIVEN in groups and len(groups) > 1:
        raise UsageError(
            "some directories are partitions and others are log directories; give all of one kind, so that the "
            "replicas of a partition are compared"
        )
    return files.as_fs(), groups


def _refuse_two_clusters(fs: Fs, directories: Sequence[Path]) -> None:
    of_cluster: dict[str, list[str]] = defaultdict(list)
    for directory in directories:
        cluster_id = _cluster_id(fs, directory)
        if cluster_id is not None:
            of_cluster[cluster_id].append(str(directory))
    if len(of_cluster) > 1:
        told = "; ".join(f"of cluster {cluster_id}: {', '.join(paths)}" for cluster_id, paths in of_cluster.items())
        raise ForeignClusterError(
            f"these are directories of {len(of_cluster)} clusters ({told}): give those of one cluster, and audit each "
            "cluster for itself"
        )


def _cluster_id(fs: Fs, directory: Path) -> str | None:
    """The cluster of a log directory, or of a partition in it; None if its file is missing or unreadable.

    The audit tells about an unreadable file: it is damage of a replica.
    """
    try:
        meta = meta_in(fs, directory) or meta_in(fs, directory.parent)
    except StorageError:
        return None
    return None if meta is None else meta.cluster_id
