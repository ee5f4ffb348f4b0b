"""The directories of an audit: one of each replica of one cluster, all of them log directories or all partitions.

Replicas of one cluster can be compared; those of two would differ in everything.

The small files that tell how far a log reaches, as they were before the audit asked for its size.

A node may write while its directory is audited. The tasks read its log up to the size that the plan found; a recovery
point or an epoch of a moment later would call the rest lost.

Invariant: no file that is kept here is younger than the sizes in the plan.

Source: KIP-631 (``cluster.id`` in meta.properties); ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, cast

from pykraft.audit.plan import AuditedPartition, find_partitions
from pykraft.errors import ForeignClusterError, StorageError, UsageError
from pykraft.log.format import meta_in
from pykraft.log.fs import File, Fs
from pykraft.log.offline.verify import partitions_in
from pykraft.log.small_files import epoch_checkpoint, recovery_point

KEPT: Final = (recovery_point.FILE_NAME, epoch_checkpoint.FILE_NAME)


class EarlierFiles:
    """Reads as another file system does, but for the files in `KEPT`."""

    def __init__(self, fs: Fs, partitions: Iterable[Path]) -> None:
        """Read those files now; one that cannot be read is left to who wants it."""
        self._fs = fs
        self._kept: dict[Path, bytes] = {}
        for path in (partition / name for partition in partitions for name in KEPT):
            with suppress(StorageError), closing(fs.open(path)) as file:
                # A file as large as this is no longer of use: `verify` tells it.
                self._kept[path] = file.pread(min(file.size(), epoch_checkpoint.SIZE_BYTES_MAX + 1), 0)

    def as_fs(self) -> Fs:
        """For whoever reads a directory."""
        return cast("Fs", self)

    def open(self, path: Path) -> File:
        """See `Fs.open`, for reading."""
        kept = self._kept.get(path)
        return self._fs.open(path) if kept is None else cast("File", _Kept(kept))

    def read(self, path: Path) -> bytes:
        """See `Fs.read`."""
        kept = self._kept.get(path)
        return self._fs.read(path) if kept is None else kept

    def __getattr__(self, name: str) -> object:
        return getattr(self._fs, name)


class _Kept:
    """The content of one file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `File.pread`."""
        return self._content[position : position + size_bytes]

    def size(self) -> int:
        """See `File.size`."""
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
