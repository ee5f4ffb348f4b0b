"""The directories of an audit: one of each replica of one cluster, all of them log directories or all partitions.

Replicas of one cluster can be compared; those of two would differ in everything.

Source: KIP-631 (``cluster.id`` in meta.properties); ours.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.audit.earlier_files import EarlierFiles
from pykraft.audit.plan import AuditedPartition, find_partitions
from pykraft.errors import ForeignClusterError, StorageError, UsageError
from pykraft.log.format import meta_in
from pykraft.log.fs import Fs
from pykraft.log.offline.verify import partitions_in

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
