"""The snapshots of a metadata log's directory: which one a moment allows, and its records.

Invariant: memory holds one batch of a snapshot, and damaged records are never returned.

Source: KIP-630.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from pykraft.log.fs import Fs
from pykraft.protocol.metadata.record import MetadataRecord, read_metadata_record
from pykraft.snapshot.files import BOOTSTRAP_ID, list_snapshots
from pykraft.snapshot.head import read_head
from pykraft.snapshot.reader import SnapshotReader
from pykraft.spark.metadata.logged import LoggedRecord
from pykraft.spark.metadata.moment import Moment
from pykraft.types import Offset, OffsetAndEpoch


class _Serde:
    """Decodes values of a snapshot."""

    def deserialize(self, data: bytes) -> MetadataRecord:
        return read_metadata_record(data)


def newest_within(fs: Fs, directory: Path, moment: Moment) -> OffsetAndEpoch | None:
    """The newest snapshot of the cluster at this moment or before. Errors: CorruptionError; StorageError."""
    for snapshot_id in reversed(list_snapshots(fs, directory)):
        if snapshot_id == BOOTSTRAP_ID:  # the first leader wrote its records into the log
            return None
        if moment.end_offset is None:
            _, head = read_head(fs, directory, snapshot_id)
            if moment.wall_ms is None or head.last_contained_log_timestamp <= moment.wall_ms:
                return snapshot_id
        elif snapshot_id.offset <= moment.end_offset:
            return snapshot_id
    return None


def oldest_from(fs: Fs, directory: Path, log_start: Offset) -> OffsetAndEpoch | None:
    """The oldest snapshot from which the log goes on; None if the log is whole. Errors: StorageError."""
    if log_start == 0:
        return None
    return next((one for one in list_snapshots(fs, directory) if one.offset >= log_start), None)


def snapshot_records(fs: Fs, directory: Path, snapshot_id: OffsetAndEpoch) -> Iterator[LoggedRecord]:
    """The records of a snapshot. Errors: CorruptionError; DeserializeError; StorageError."""
    reader = SnapshotReader.of(fs, directory, snapshot_id, _Serde())
    end_offset, timestamp_ms = snapshot_id.offset, reader.last_contained_log_timestamp
    with closing(reader):
        for batch in reader:
            for record in batch.records:
                yield LoggedRecord(offset=None, end_offset=end_offset, timestamp_ms=timestamp_ms, record=record)
