"""Writes a snapshot of the application's state: records in, batches of bounded size out.

This module adds the header before the records, with kraft.version and voters if there are any, and the footer after
them. Invariant: one call writes only the records it was given, so a snapshot of any size is many short calls; memory
holds at most one open batch. A failure leaves at most a ``.part``.

All batches carry the timestamp of the last log record that the snapshot contains, not the time of day. So two replicas
whose applications add the same records in the same order write the same bytes, which can be compared.

The caller decides when a snapshot is due, and checks its id.

Source: KIP-630, KIP-853; Kafka's ``RecordsSnapshotWriter``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from pykraft.errors import RecordBatchTooLargeError, UsageError
from pykraft.log.fs import Fs
from pykraft.protocol.records import HEADER_SIZE_BYTES, batch_size_bytes, encode_batch, encode_control_batch
from pykraft.record_list import check_records
from pykraft.snapshot.head import ContainsLog
from pykraft.snapshot.raw_writer import SIZE_BYTES_MAX, RawWriter
from pykraft.types import (
    ControlRecord,
    KRaftVersion,
    KRaftVoters,
    Offset,
    OffsetAndEpoch,
    SnapshotFooter,
    SnapshotHeader,
    VoterSet,
)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

RECORD_SIZE_BYTES_MAX: Final = 8 * 1024 * 1024 - HEADER_SIZE_BYTES
"""Most bytes of one record in a batch, its frame included: Kafka's batches have at most 8 MiB."""
BATCH_SIZE_BYTES: Final = 1024 * 1024
"""A batch is written before it would exceed this size; a single larger record gets its own batch."""
_FRAME_SIZE_BYTES_MAX: Final = 19
"""Most bytes around the value of a record: three varints of up to five bytes, and four single bytes."""


class Serializer(Protocol[T_contra]):
    """The half of a serde that turns records into bytes, at least one byte each."""

    def serialize(self, record: T_contra) -> bytes:
        """The bytes of the record."""


class SnapshotWriter(ContainsLog, Generic[T]):
    """A snapshot that is being written: `append` records, then `freeze`; `close` without `freeze` discards it."""

    def __init__(
        self,
        fs: Fs,
        directory: Path,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[T],
        *,
        last_contained_log_timestamp: int,
        kraft_version: int = 0,
        voters: VoterSet | None = None,
        size_bytes_max: int = SIZE_BYTES_MAX,
    ) -> None:
        """Create the part and write the header.

        ``kraft_version`` and ``voters`` are those in force at the last offset that the snapshot contains; the timestamp
        (wall ms) is that of its last record. ``size_bytes_max`` limits the file.

        Errors: UsageError for voters without kraft.version 1, because the configuration has them then;
        SnapshotFailedError.
        """
        if kraft_version == 0 and voters is not None:
            raise UsageError("a snapshot of kraft.version 0 holds no voters: they are in the configuration")
        super().__init__(snapshot_id)
        self._serializer = serializer
        self.last_contained_log_timestamp = last_contained_log_timestamp
        """Wall ms of the record at `last_contained_log_offset`."""
        self._offset = Offset(0)
        self._values: list[bytes] = []
        self._open_size_bytes = 0
        self._raw = RawWriter.create(fs, directory, snapshot_id, size_bytes_max=size_bytes_max)
        head: list[ControlRecord] = [SnapshotHeader(last_contained_log_timestamp)]
        if kraft_version > 0:
            head.append(KRaftVersion(kraft_version))
        if voters is not None:
            head.append(KRaftVoters(voters))
        try:
            self._write_controls(head)
        except BaseException:
            self._raw.abandon()
            raise

    @property
    def is_frozen(self) -> bool:
        """True once the snapshot counts."""
        return self._raw.is_frozen

    def append(self, records: Iterable[T]) -> None:
        """Add records, in the order in which a listener will get them.

        Errors: UsageError for a single record or a set, an empty value, above the size limit, and after `freeze` or
        `close`; TypeError for a value that is not bytes; RecordBatchTooLargeError for a record above
        RECORD_SIZE_BYTES_MAX; SnapshotFailedError; any exception of the serializer. After an error the writer writes
        nothing more.
        """
        self._raw.require_open()
        try:
            check_records(records)
            for record in records:
                self._append_one(self._serializer.serialize(record))
        except BaseException:
            self._raw.close()
            raise

    def freeze(self) -> int:
        """Write the open batch and the footer, and make the snapshot count; returns its size in bytes.

        Errors: UsageError after `freeze`, `close` or an error, and above the size limit; SnapshotFailedError;
        StorageError when the directory cannot be synced.
        """
        self._raw.require_open()
        self._write_values()
        self._write_controls([SnapshotFooter()])
        self._raw.freeze()
        return self._raw.size_bytes

    def close(self) -> None:
        """Remove the part, unless the snapshot is frozen; closing twice does nothing."""
        self._values.clear()
        self._raw.abandon()

    def _append_one(self, value: bytes) -> None:
        if not isinstance(value, bytes):
            raise TypeError(f"{self._serializer!r} serialized a record as {type(value).__name__}, not as bytes")
        size_bytes = len(value) + _FRAME_SIZE_BYTES_MAX
        if not value or size_bytes > RECORD_SIZE_BYTES_MAX:
            self._refuse(value)
        if self._open_size_bytes + size_bytes > BATCH_SIZE_BYTES:
            self._write_values()
        self._values.append(value)
        self._open_size_bytes += size_bytes

    def _refuse(self, value: bytes) -> None:
        if not value:
            raise UsageError("a record takes at least one byte in a snapshot: the serializer made an empty one")
        size_bytes = batch_size_bytes([value]) - HEADER_SIZE_BYTES
        if size_bytes > RECORD_SIZE_BYTES_MAX:
            raise RecordBatchTooLargeError(
                f"a record takes {size_bytes} bytes, and at most {RECORD_SIZE_BYTES_MAX} are allowed in a snapshot"
            )

    def _write_values(self) -> None:
        if self._values:
            self._write(
                encode_batch(
                    self._values,
                    base_offset=self._offset,
                    epoch=self.snapshot_id.epoch,
                    timestamp_ms=self.last_contained_log_timestamp,
                ).data,
                len(self._values),
            )
            self._values.clear()
            self._open_size_bytes = 0

    def _write_controls(self, records: list[ControlRecord]) -> None:
        batch = encode_control_batch(
            records,
            base_offset=self._offset,
            epoch=self.snapshot_id.epoch,
            timestamp_ms=self.last_contained_log_timestamp,
        ).data
        self._write(batch, len(records))

    def _write(self, batch: bytes, count: int) -> None:
        self._raw.append([batch])
        self._offset = Offset(self._offset + count)
