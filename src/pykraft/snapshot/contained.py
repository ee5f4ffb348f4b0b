"""The part of the log that a snapshot replaces, in KIP-630's terms, derived from the snapshot's id.

Source: KIP-630 §Snapshot Format; Kafka's ``SnapshotReader`` and ``SnapshotWriter`` have both.
"""

from __future__ import annotations

from pykraft.types import Epoch, Offset, OffsetAndEpoch


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
