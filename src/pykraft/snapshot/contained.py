"""What part of the log a snapshot stands for, in KIP-630's words.

Owns the way from a snapshot's name to them.

Source: KIP-630 §Snapshot Format; Kafka's ``SnapshotReader`` and ``SnapshotWriter`` have both.
"""

from __future__ import annotations

from pykraft.types import Epoch, Offset, OffsetAndEpoch


class ContainsLog:
    """Base of whatever reads or writes a snapshot."""

    def __init__(self, snapshot_id: OffsetAndEpoch) -> None:
        self.snapshot_id = snapshot_id
        """The offset (exclusive) up to which the snapshot stands for the log, and the epoch of the record before."""

    @property
    def last_contained_log_offset(self) -> Offset:
        """The last offset that the snapshot stands for; -1 for the bootstrap snapshot."""
        return Offset(self.snapshot_id.offset - 1)

    @property
    def last_contained_log_epoch(self) -> Epoch:
        """Epoch of the record at that offset."""
        return self.snapshot_id.epoch
