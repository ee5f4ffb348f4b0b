"""Snapshots of the application's state: when a listener is asked for one, its file, and which one a listener gets.

Invariants: a snapshot covers the committed log up to the end of a batch, its id has the epoch of its last record, and
an id has only one writer. All file operations run on the bulk lane, piece by piece, so a large snapshot delays no vote,
and only the records of one call are in memory.

A listener is asked only if it was given something since the last time, and only once it was given everything that was
committed when saving became due: one that rereads a long log is asked once, at its end. One that could not save is
asked again later. It gets a snapshot only in place of records that it has not been given.

Source: KIP-630 §When to Snapshot, KIP-853, KIP-1170; Kafka's ``KafkaRaftLog.createNewSnapshot`` (whose check of the
epoch is less strict), ``KafkaRaftClient.updateListenersProgress`` and ``SnapshotGenerator``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from pykraft.config import LogSettings
from pykraft.core.epochs import epoch_at
from pykraft.core.events import SnapshotFrozen
from pykraft.core.log_view import LogView
from pykraft.core.voter_history import VoterHistory
from pykraft.errors import CorruptionError, PykraftError, SnapshotFailedError, StorageError, UsageError
from pykraft.host.fetch_read import ReadableLog, RecentBatches, read_durable
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.host.snapshots.files import SnapshotFailures, SnapshotFiles, unless_wrong
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, read_header
from pykraft.snapshot.catalog import Reason, due
from pykraft.snapshot.head import Deserializer, SnapshotReader
from pykraft.snapshot.writer import Serializer, SnapshotWriter
from pykraft.types import Offset, OffsetAndEpoch


class SnapshotTrigger:
    """For one listener. Time comes through `poll`: the first call after a reset sets its start time."""

    def __init__(self, settings: LogSettings, wake: Callable[[], None]) -> None:
        """``wake`` requests a call of `poll` soon."""
        self._settings = settings
        self._wake = wake
        self._record_bytes = 0
        self._given: OffsetAndEpoch | None = None
        self._since_ms: int | None = None
        self._reason: Reason | None = None
        self._due_offset = Offset(0)

    @property
    def next_deadline_ms(self) -> int | None:
        """When saving becomes due by age (mono ms); None when it cannot."""
        if self._since_ms is None or self._reason is not None or not self._record_bytes:
            return None
        interval_ms = self._settings.snapshot_interval_ms
        return self._since_ms + interval_ms if interval_ms else None

    def given(self, end: OffsetAndEpoch, size_bytes: int, high_watermark: Offset) -> None:
        """The listener was given batches of this size up to this end; the high watermark is the current one."""
        if not self._record_bytes:
            self._wake()
        self._given = end
        self._record_bytes += size_bytes
        # Only the bytes have changed; `poll` brings the time.
        self._check_due(0, high_watermark)

    def poll(self, mono_ms: int, high_watermark: Offset) -> None:
        if self._since_ms is None:
            self._since_ms = mono_ms
        self._check_due(mono_ms - self._since_ms, high_watermark)

    def begin_anew(self) -> None:
        """Reset the count: the listener was given a snapshot, or is asked for one."""
        self._given, self._reason, self._record_bytes, self._since_ms = None, None, 0, None
        self._wake()

    def take(self) -> tuple[OffsetAndEpoch, Reason] | None:
        """The snapshot to ask for now and the reason; None when none is due. Resets the count."""
        given, reason = self._given, self._reason
        # A listener that is still behind is not asked: its snapshot would be out of date at once.
        if given is None or reason is None or given.offset < self._due_offset:
            return None
        self.begin_anew()
        return given, reason

    def _check_due(self, elapsed_ms: int, high_watermark: Offset) -> None:
        if self._reason is None:
            self._reason = due(self._settings, record_bytes=self._record_bytes, elapsed_ms=elapsed_ms)
            self._due_offset = high_watermark


OnSkipped: TypeAlias = Callable[[Offset, Offset], None]
"""Gets the offsets that a listener without a loader misses: from the first to the second (exclusive), the log start."""


@dataclass(frozen=True, slots=True)
class Loader:
    """How a listener loads and saves: ``deserializer`` decodes the records, ``load`` gets the open reader.

    The receiver closes the reader. Each of these calls replaces ``on_commit``, under the rules of
    `pykraft.host.delivery.HostListener`.
    """

    deserializer: Deserializer[Any]
    load: Callable[[SnapshotReader[Any]], None]
    bootstrap: Callable[[SnapshotReader[Any]], None] | None = None
    """Gets the bootstrap checkpoint; the records from 0 on follow. None: the listener does not want it."""
    save: Callable[[OffsetAndEpoch], None] | None = None
    """Is asked for a snapshot of everything delivered so far, ending here. None: the listener creates none."""


@dataclass(frozen=True, slots=True)
class SnapshotToLoad:
    """A snapshot to deliver: ``open`` runs on the bulk lane, ``load`` gets its result."""

    open: Callable[[], SnapshotReader[Any]]
    load: Callable[[SnapshotReader[Any]], None]


R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class _Failed:
    error: SnapshotFailedError


class SnapshotReading:
    """Reads snapshots on the bulk lane, each piece again and again until the disk gives it."""

    def __init__(self, ports: Ports, files: SnapshotFiles, failures: SnapshotFailures) -> None:
        """``failures`` are those of reading."""
        self.files = files
        self._ports = ports
        self._failures = failures

    def read(self, read: Callable[[], R], then: Callable[[R], None]) -> None:
        """Pass what ``read`` returns to ``then``; a disk that cannot read it only delays that."""

        def act() -> R | _Failed:
            try:
                return read()
            except StorageError as error:
                failed = unless_wrong(error)
                if not isinstance(failed, SnapshotFailedError):
                    raise
                return _Failed(failed)

        def done(found: R | _Failed) -> None:
            if isinstance(found, _Failed):
                self._failures.failed(found.error)
                self._failures.after_pause(lambda: self.read(read, then))
            else:
                then(found)

        self._ports.submit_read(act, done)


class SnapshotLoading:
    """The snapshots for one listener, or the offsets that it misses without them."""

    def __init__(
        self, loader: Loader | None, files: SnapshotFiles, *, is_fresh: bool, on_skipped: OnSkipped | None = None
    ) -> None:
        """``is_fresh``: nothing was delivered yet, so a snapshot may replace everything that it covers."""
        self.loader = loader
        self._files = files
        self._is_fresh = is_fresh
        self._on_skipped = on_skipped

    @property
    def can_save(self) -> bool:
        """True when the listener can be asked for its state."""
        return self.loader is not None and self.loader.save is not None

    def skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        """A listener without a loader skips to the log start."""
        if self._on_skipped is not None:
            self._on_skipped(next_offset, start_offset)

    def given(self) -> None:
        self._is_fresh = False

    def wanted(self, next_offset: Offset, start_offset: Offset) -> SnapshotToLoad | None:
        """The snapshot to deliver before the record at ``next_offset``, if any; the log starts at ``start_offset``."""
        loader, files = self.loader, self._files
        if loader is None:
            return None
        newest = files.catalog.newest
        is_first = self._is_fresh and newest is not None and next_offset < newest.offset
        if is_first or next_offset < start_offset:
            return SnapshotToLoad(partial(files.open_newest, loader.deserializer), loader.load)
        if self._is_fresh and files.has_bootstrap and loader.bootstrap is not None and next_offset == 0:
            return SnapshotToLoad(partial(files.open_bootstrap, loader.deserializer), loader.bootstrap)
        return None


Hold: TypeAlias = Callable[[Offset, Callable[[], None]], None]
"""Gets the end of a snapshot, and calls back when it may count."""
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
        *,
        hold: Hold = lambda _, then: then(),
    ) -> None:
        """``failures`` are those of writing; ``hold`` delays the end of a snapshot until it may count."""
        self.hold = hold
        self.failures = failures
        self._ports = ports
        self._inbox = inbox
        self._files = files
        self._log = log
        self._recent = recent
        self._under_way: set[OffsetAndEpoch] = set()

    def begin(
        self,
        log: LogView,
        history: VoterHistory,
        snapshot_id: OffsetAndEpoch,
        serializer: Serializer[Any],
        then: Callable[[NewSnapshot | Exception | None], None],
    ) -> None:
        """Pass ``then`` a snapshot to write, or None when it is not needed or not possible now.

        It is not needed when it exists, is being written, or is below the log start, and not possible for a while after
        one could not be written. SnapshotFailedError for one that cannot be begun; UsageError for one that does not end
        within the committed log at the end of a batch, or of another epoch.
        """
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
            wanted = f"no snapshot is taken at offset {snapshot_id.offset} of epoch {snapshot_id.epoch}"
            then(UsageError(f"{wanted}: {known}"))
            return
        self._under_way.add(snapshot_id)
        level, voters = history.kraft_version_at(last_offset), history.voters_at(last_offset)
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

    def frozen(self, event: SnapshotFrozen) -> None:
        """Tell the core in the next step."""
        self._inbox.put(event)
        self._ports.wake_at(AT_ONCE_MS)

    def ended(self, error: Exception | None) -> None:
        if error is None:
            self.failures.succeeded()
        elif isinstance(error, SnapshotFailedError):
            self.failures.failed(error)

    def over(self, snapshot_id: OffsetAndEpoch) -> None:
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

        self._taking.hold(self.snapshot_id.offset, lambda: self._ports.submit_read(act, done))

    def close(self) -> None:
        """Discard the snapshot unless it is frozen, and remove what was written."""
        self._ports.submit_read(self._writer.close, lambda _: self._taking.over(self.snapshot_id))
