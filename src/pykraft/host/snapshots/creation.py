"""Creates snapshots of the application's state: checks that one is possible, and writes its records to disk.

Invariant: a snapshot covers the committed log up to the end of a batch, its id has the epoch of its last record, and an
id has only one writer. All file operations run on the bulk lane, piece by piece. So a large snapshot delays no vote,
and only the records of one call are in memory.

`pykraft.snapshot.catalog` decides when a snapshot is due.

Source: KIP-630 §When to Snapshot; Kafka's ``KafkaRaftLog.createNewSnapshot``. The epoch is checked more strictly.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pykraft.core.epochs import epoch_at
from pykraft.core.events import SnapshotFrozen
from pykraft.core.raft import Raft
from pykraft.errors import CorruptionError, PykraftError, SnapshotFailedError, StorageError, UsageError
from pykraft.host.fetch_read import ReadableLog, read_durable
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.host.recent_batches import RecentBatches
from pykraft.host.snapshots.failures import SnapshotFailures
from pykraft.host.snapshots.files import SnapshotFiles
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, read_header
from pykraft.snapshot.writer import Serializer, SnapshotWriter
from pykraft.types import Offset, OffsetAndEpoch

PIECE_RECORDS_MAX: Final = 100
"""Records that are taken from the application at a time, and written before it is asked for the next."""


class SnapshotCreation:
    """All snapshots that are being written on one node."""

    def __init__(
        self,
        ports: Ports,
        inbox: Inbox,
        files: SnapshotFiles,
        log: ReadableLog,
        recent: RecentBatches,
        failures: SnapshotFailures,
    ) -> None:
        """``failures`` are those of writing."""
        self.failures = failures
        self._ports = ports
        self._inbox = inbox
        self._files = files
        self._log = log
        self._recent = recent
        self._under_way: set[OffsetAndEpoch] = set()

    def begin(
        self,
        raft: Raft,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[Any],
        then: Callable[[NewSnapshot | Exception | None], None],
    ) -> None:
        """Pass ``then`` a snapshot to write, or None when it is not needed or not possible now.

        It is not needed when it exists, is being written, or is below the log start, and not possible for a while after
        one could not be written. SnapshotFailedError for one that cannot be begun; UsageError for one that does not end
        within the committed log at the end of a batch, or of another epoch.
        """
        log = raft.log
        if self.failures.is_pausing:
            then(None)
            return
        if snapshot_id.offset < log.start_offset or {snapshot_id} & {*self._files.catalog.ids, *self._under_way}:
            then(None)
            return
        last_offset = Offset(snapshot_id.offset - 1)
        epoch = epoch_at(log.epochs, last_offset)
        if not 0 <= last_offset < log.committed_end_offset or epoch != snapshot_id.epoch:
            known = f"the committed log ends at {log.committed_end_offset}, and the record before has epoch {epoch}"
            then(
                UsageError(f"no snapshot is taken at offset {snapshot_id.offset} of epoch {snapshot_id.epoch}: {known}")
            )
            return
        self._under_way.add(snapshot_id)
        level, voters = raft.voter_history.kraft_version_at(last_offset), raft.voter_history.voters_at(last_offset)
        # Look now: the batch may be evicted from memory before the bulk lane runs `create`.
        recent = self._recent_header(last_offset)

        def create() -> SnapshotWriter[Any] | Exception:
            header = recent
            if header is None:
                data = read_durable(self._log, last_offset, HEADER_SIZE_BYTES)
                if data is None or isinstance(data, CorruptionError):
                    return UsageError(f"the log before offset {snapshot_id.offset} cannot be read now")
                header = read_header(data)
            if header.end_offset != snapshot_id.offset:
                return UsageError(f"no batch ends at offset {snapshot_id.offset}: a snapshot ends where one does")
            try:
                return SnapshotWriter(
                    self._files.fs,
                    self._files.directory,
                    snapshot_id,
                    serializer,
                    last_contained_log_timestamp=header.max_timestamp,
                    kraft_version=level,
                    voters=voters,
                    size_bytes_max=self._files.settings.snapshot_size_bytes_max,
                )
            except SnapshotFailedError as error:
                return error

        self._ports.submit_read(create, lambda made: self._created(made, snapshot_id, then))

    def frozen(self, told: SnapshotFrozen) -> None:
        """Tell the core in the next step."""
        self._inbox.put(told)
        self._ports.wake_at(AT_ONCE_MS)

    def ended(self, error: Exception | None) -> None:
        """A snapshot is complete, or an error ended it."""
        if error is None:
            self.failures.succeeded()
        elif isinstance(error, SnapshotFailedError):
            self.failures.failed(error)

    def over(self, snapshot_id: OffsetAndEpoch) -> None:
        """The writer of this snapshot is done."""
        self._under_way.discard(snapshot_id)

    def _recent_header(self, offset: Offset) -> BatchHeader | None:
        """The header of the batch that contains this offset; None when only the files can tell."""
        if offset < self._recent.start_offset:
            return None
        [(header, _)] = self._recent.take(offset, self._recent.end_offset, 0)
        return header

    def _created(
        self,
        made: SnapshotWriter[Any] | Exception,
        snapshot_id: OffsetAndEpoch,
        then: Callable[[NewSnapshot | Exception | None], None],
    ) -> None:
        if isinstance(made, Exception):
            self.over(snapshot_id)
            self.ended(made)
            then(made)
        else:
            then(NewSnapshot(self, self._ports, self._files, made))


class NewSnapshot:
    """One snapshot that is being written: call `append` repeatedly, then `freeze` or `close`.

    One call at a time: each answers through ``then``, with None or a number, or with the error.
    """

    def __init__(
        self, taking: SnapshotCreation, ports: Ports, files: SnapshotFiles, writer: SnapshotWriter[Any]
    ) -> None:
        self.piece_records_max = PIECE_RECORDS_MAX
        """How many records the next `append` should have at most."""
        self._taking = taking
        self._ports = ports
        self._files = files
        self._writer = writer

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """Id of this snapshot."""
        return self._writer.snapshot_id

    def append(self, records: Sequence[Any], then: Callable[[Exception | None], None]) -> None:
        """Append records. Answers with the errors of `SnapshotWriter.append`; after one, only `close` is allowed."""

        def act() -> Exception | None:
            try:
                self._writer.append(records)
            except SnapshotFailedError as error:
                # Give the room back at once: the application may close the snapshot late.
                self._writer.close()
                return error
            # Another failure of the disk ends the node and is not the application's error.
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - whatever the serializer raises goes to the application
                return error
            return None

        def done(error: Exception | None) -> None:
            if error is not None:
                self._taking.ended(error)
            then(error)

        self._ports.submit_read(act, done)

    def freeze(self, then: Callable[[int | Exception], None]) -> None:
        """Complete the snapshot; answers with its size in bytes. Errors: as `SnapshotWriter.freeze`."""

        def act() -> tuple[int, SnapshotFrozen] | Exception:
            try:
                return self._writer.freeze(), self._files.frozen(self.snapshot_id)
            except SnapshotFailedError as error:
                self._writer.close()
                return error
            except StorageError:
                raise
            except PykraftError as error:
                return error

        def done(result: tuple[int, SnapshotFrozen] | Exception) -> None:
            self._taking.over(self.snapshot_id)
            if isinstance(result, Exception):
                self._taking.ended(result)
                then(result)
            else:
                self._taking.ended(None)
                self._taking.frozen(result[1])
                then(result[0])

        self._ports.submit_read(act, done)

    def close(self) -> None:
        """Discard the snapshot unless it is frozen, and remove what was written."""
        self._ports.submit_read(self._writer.close, lambda _: self._taking.over(self.snapshot_id))
