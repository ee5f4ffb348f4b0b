"""The bootstrap snapshot 0-0, which formatting writes: it names the voters before there is a log.

Invariant: if the file exists, it is complete, and it has no records of the application. The first leader copies its
content into the log, so a node without the file learns the same by fetching; nobody fetches the file itself.

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
    """Write the bootstrap snapshot into a partition directory; a node that joins a quorum has no ``voters``.

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
    """End offset and voter records of the newest snapshot within the log; 0 and nothing without a snapshot.

    Errors: StorageError; CorruptionError.
    """
    snapshots = list_snapshots(fs, partition)
    if not snapshots:
        return Offset(0), ()
    within = [each for each in snapshots if each.offset <= log_end]
    # A damaged log may end before all of its snapshots do; then the oldest of them is closest to it.
    chosen = within[-1] if within else snapshots[0]
    _, head = read_head(fs, partition, chosen)
    return min(chosen.offset, log_end), head.membership


class _NoRecords:
    """The serializer of a snapshot without records."""

    def serialize(self, record: Never) -> bytes:
        assert_never(record)
