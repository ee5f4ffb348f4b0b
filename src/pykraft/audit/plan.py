"""Plans an audit: which replicas there are, and which bytes a task reads. Nothing is read but names and sizes.

A task reads a snapshot, or a part of a segment. A plan names parts by *cuts*, positions that need not be where a batch
begins; the task itself finds the batches (`pykraft.audit.part`). So planning costs the same for a segment of any
content, and the number of tasks follows from the bytes alone.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pykraft.errors import StorageError
from pykraft.log.fs import Fs
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.offline.verify import partitions_in
from pykraft.log.offline.verify_index import entries
from pykraft.log.paths import LOG, OFFSET_INDEX, parse_checkpoint, parse_segment_file, segment_file
from pykraft.types import Offset

PART_SIZE_BYTES: Final = 64 * 1024 * 1024
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
        """Where the segments begin."""
        return [base_offset for base_offset, _ in self.segments]

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return sum(size for _, size in self.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTask:
    """Check the part of a segment from the cut with this number to the next one."""

    partition: Path
    base_offset: Offset
    size_bytes: int
    """Of the whole segment, when it was planned."""
    cut: int
    cut_size_bytes: int
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
    found = sorted(offset for offset, suffix in filter(None, map(parse_segment_file, names)) if suffix == LOG)
    segments = tuple((offset, _size(fs, path / segment_file(offset, LOG))) for offset in found)
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
            delta = max((entry[0] for _, entry in entries(file, OFFSET_ENTRY)), default=0)
    except StorageError:
        delta = 0
    # An offset takes some bytes, so a damaged entry cannot make the digests arbitrarily wide.
    return base_offset + min(max(delta, 0), size_bytes)


def tasks_of(
    partition: AuditedPartition,
    *,
    part_size_bytes: int = PART_SIZE_BYTES,
    offsets_a_digest: int,
    has_journal: bool,
) -> Iterator[PartTask | SnapshotTask]:
    """What is to be read of a partition, in the order of the log; then its snapshots."""
    probes = tuple(found.offset for found in map(parse_checkpoint, partition.names) if found)
    for base_offset, size_bytes in partition.segments:
        for cut in range(max(1, -(-size_bytes // part_size_bytes))):
            yield PartTask(
                partition=partition.path,
                base_offset=base_offset,
                size_bytes=size_bytes,
                cut=cut,
                cut_size_bytes=part_size_bytes,
                digest_offsets=offsets_a_digest,
                probes=probes,
                has_journal=has_journal,
            )
    for name in partition.names:
        if parse_checkpoint(name):
            yield SnapshotTask(path=partition.path / name)
