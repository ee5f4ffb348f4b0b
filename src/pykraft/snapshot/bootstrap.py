"""The checkpoint with which a dynamic quorum is formatted: snapshot 0-0, which says who votes before there is a log.

Invariant: it is whole when it is there, and holds no records of the application. The first leader copies it into the
log, so a node without it learns the same by fetching; it is never served.

Source: KIP-853 §Bootstrapping; Kafka's ``Formatter`` and ``BootstrapDirectory``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Never, assert_never

from pykraft.log.fs import Fs, make_directory
from pykraft.snapshot.files import BOOTSTRAP_ID, list_snapshots
from pykraft.snapshot.head import read_head
from pykraft.snapshot.writer import SnapshotWriter
from pykraft.types import MembershipRecord, Offset, VoterSet

BOOTSTRAP_KRAFT_VERSION = 1


def write_bootstrap(fs: Fs, partition: Path, voters: VoterSet | None) -> None:
    """Write the checkpoint into a partition directory; without ``voters`` for a node that joins others.

    Errors: StorageError.
    """
    make_directory(fs, partition)
    writer: SnapshotWriter[Never] = SnapshotWriter(
        fs,
        partition,
        BOOTSTRAP_ID,
        _NoRecords(),
        last_contained_log_timestamp=0,
        kraft_version=BOOTSTRAP_KRAFT_VERSION,
        voters=voters,
    )
    try:
        writer.freeze()
    finally:
        writer.close()


def membership_in_snapshot(fs: Fs, partition: Path, log_end: Offset) -> tuple[Offset, tuple[MembershipRecord, ...]]:
    """End offset of the newest snapshot within the log, and what it says of voters; 0 and nothing without one.

    A damaged log may end before all snapshots do that were taken of it: then the first of them speaks for that log.

    Errors: StorageError; CorruptionError.
    """
    snapshots = list_snapshots(fs, partition)
    if not snapshots:
        return Offset(0), ()
    within = [each for each in snapshots if each.offset <= log_end]
    chosen = within[-1] if within else snapshots[0]
    _, head = read_head(fs, partition, chosen)
    return min(chosen.offset, log_end), head.membership


class _NoRecords:
    """The serializer of what has none."""

    def serialize(self, record: Never) -> bytes:
        assert_never(record)
