"""The facts at the beginning of a snapshot, and the part of the log that it replaces, which its id says.

Invariant: however large the snapshot is, only its first batch and one chunk are read.

Source: KIP-630, KIP-853; Kafka's ``RecordsSnapshotReader`` and ``KRaftControlRecordStateMachine``; KIP-630 §Snapshot
Format; Kafka's ``SnapshotReader`` and ``SnapshotWriter`` have both.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pykraft.log.fs import Fs
from pykraft.snapshot.batches import read_batches
from pykraft.snapshot.files import checkpoint_path
from pykraft.types import (
    ControlRecord,
    Epoch,
    KRaftVersion,
    KRaftVoters,
    MembershipRecord,
    Offset,
    OffsetAndEpoch,
    SnapshotHeader,
    VoterSet,
)


class ContainsLog:
    """Base of snapshot readers and writers."""

    def __init__(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        """The offset (exclusive) up to which the snapshot replaces the log, and the epoch of the record before it."""

    @property
    def last_contained_log_offset(self) -> Offset:
        """The last offset that the snapshot replaces; -1 for the bootstrap snapshot."""
        return Offset(self.snapshot_id.offset - 1)

    @property
    def last_contained_log_epoch(self) -> Epoch:
        """Epoch of the record at that offset."""
        return self.snapshot_id.epoch


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHead:
    """Facts about the last offset that a snapshot contains."""

    last_contained_log_timestamp: int
    """Wall ms of the record at that offset."""
    kraft_version: int = 0
    """The finalized kraft.version at that offset."""
    voters: VoterSet | None = None
    """The voter set at that offset; None when the configuration has it, or when it is unknown."""

    @property
    def membership(self) -> tuple[MembershipRecord, ...]:
        """The same facts as the control records that a log would contain; empty for kraft.version 0."""
        level = (KRaftVersion(self.kraft_version),) if self.kraft_version else ()
        return level if self.voters is None else (*level, KRaftVoters(self.voters))

    @classmethod
    def of(cls, records: Sequence[ControlRecord]) -> SnapshotHead:
        """The facts in the first batch of a sound snapshot: a SnapshotHeader and the records after it."""
        header = records[0]
        assert isinstance(header, SnapshotHeader)
        return cls(
            last_contained_log_timestamp=header.last_contained_log_timestamp,
            kraft_version=next((record.level for record in records if isinstance(record, KRaftVersion)), 0),
            voters=next((record.voters for record in records if isinstance(record, KRaftVoters)), None),
        )


def read_head(fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch) -> tuple[int, SnapshotHead]:
    """Size in bytes of a snapshot, and its head.

    Errors: StorageError, also when there is no such snapshot; CorruptionError.
    """
    path = checkpoint_path(directory, snapshot_id)
    with closing(fs.open(path)) as file:
        first = next(read_batches(path, file, snapshot_id.epoch))
        return file.size(), SnapshotHead.of(first.controls)
