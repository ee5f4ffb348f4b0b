"""What a snapshot says at its beginning, for whoever needs no records of it.

Owns the way from the first batch to three facts. Invariant: however large the snapshot is, no more is read of it than
its first batch and a chunk. It refuses to know what follows from the facts.

Source: KIP-630, KIP-853; Kafka's ``RecordsSnapshotReader`` and ``KRaftControlRecordStateMachine``.
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
    KRaftVersion,
    KRaftVoters,
    MembershipRecord,
    OffsetAndEpoch,
    SnapshotHeader,
    VoterSet,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHead:
    """Facts about the last offset that a snapshot stands for."""

    last_contained_log_timestamp: int
    """Wall ms of the record there."""
    kraft_version: int = 0
    """The finalized kraft.version there."""
    voters: VoterSet | None = None
    """The voter set there; None when it stands in the configuration, or is not known."""

    @property
    def membership(self) -> tuple[MembershipRecord, ...]:
        """The same facts as the control records that a log would hold; none of kraft.version 0."""
        level = (KRaftVersion(self.kraft_version),) if self.kraft_version else ()
        return level if self.voters is None else (*level, KRaftVoters(self.voters))

    @classmethod
    def of(cls, records: Sequence[ControlRecord]) -> SnapshotHead:
        """The facts in the first batch of a sound snapshot: a SnapshotHeader, and what follows it."""
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
