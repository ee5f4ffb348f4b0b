"""The snapshot files of a node, and their failures: each is counted, reported, and tried again after a pause.

A snapshot only saves space and time: the log, or another replica, still has what it would have held. So a full disk, or
one that fails for this file, must not end a node that can still append. Invariants: a file of which a write or a sync
failed never becomes a snapshot; while one kind of access pauses, at most one alarm is reported for it; the pause
doubles with each failure, up to a limit. The sync of the *directory* is not among these failures: the log has its names
in it, and the node stops as for any other failed sync (ADR 134).

Source: Kafka's ``KafkaRaftLog``; its ``FaultHandler`` treats a snapshot that fails as a non-fatal fault.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final, TypeVar

from pykraft.config import LogSettings
from pykraft.core.effects import Report
from pykraft.core.events import SnapshotFrozen
from pykraft.errors import CorruptionError, ReadError, SnapshotFailedError, StorageError
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.log.fs import Fs
from pykraft.snapshot.catalog import Catalog
from pykraft.snapshot.files import BOOTSTRAP_ID, list_snapshots, parse_snapshot_file
from pykraft.snapshot.head import Deserializer, SnapshotReader, read_head
from pykraft.types import Epoch, Instant, Offset, OffsetAndEpoch, ReportKind

PAUSES_MAX: Final = 16
"""The longest pause, in units of the first one."""


class SnapshotAccess(Enum):
    """What failed, as an operator reads it, what to do about it, and the kind of the report."""

    WRITE = (
        "NO SNAPSHOT WRITTEN",
        "until one succeeds, the log here keeps growing: make room on this disk, or check it",
        ReportKind.SNAPSHOT_NOT_WRITTEN,
    )
    READ = (
        "SNAPSHOT NOT READ",
        "check the disk; a restart examines the snapshots, and sets a damaged one aside if the log holds the same",
        ReportKind.SNAPSHOT_NOT_READ,
    )


class SnapshotFailures:
    """The failures of one kind of access on one node. All calls come on the host's thread."""

    def __init__(self, ports: Ports, access: SnapshotAccess, *, pause_ms: int) -> None:
        """``pause_ms`` is the first pause."""
        self.count = 0
        self._ports = ports
        self._access = access
        self._pause_ms_min = pause_ms
        self._pause_ms = 0
        self._until_ms: int | None = None
        self._is_new = False
        self._waiting: list[Callable[[], None]] = []

    @property
    def is_pausing(self) -> bool:
        """True when nothing should be tried now."""
        return self._is_new or self._until_ms is not None

    @property
    def next_deadline_ms(self) -> int | None:
        """When the pause is over (mono ms); None without one."""
        return AT_ONCE_MS if self._is_new else self._until_ms

    def failed(self, error: SnapshotFailedError) -> None:
        """An attempt failed: count it, and begin a pause unless there is one."""
        self.count += 1
        if self.is_pausing:
            return
        self._pause_ms = min(max(self._pause_ms * 2, self._pause_ms_min), self._pause_ms_min * PAUSES_MAX)
        what, advice, kind = self._access.value
        text = f"{what}: {error}; the node goes on, and tries again; {advice}"
        self._ports.report(Report(text=text, is_alarm=True, kind=kind))
        self._is_new = True
        # The next `poll` knows the time at which the pause begins.
        self._ports.wake_at(AT_ONCE_MS)

    def succeeded(self) -> None:
        """An attempt succeeded: the next pause is a short one again."""
        self._pause_ms = 0

    def after_pause(self, retry: Callable[[], None]) -> None:
        """Call this when the present pause is over."""
        self._waiting.append(retry)

    def poll(self, now: Instant) -> None:
        if self._is_new:
            self._is_new, self._until_ms = False, now.mono_ms + self._pause_ms
        elif self._until_ms is not None and self._until_ms <= now.mono_ms:
            self._until_ms = None
            waiting, self._waiting = self._waiting, []
            for retry in waiting:
                retry()


class SnapshotTroubles:
    """The failures of a node by kind of access."""

    def __init__(self, ports: Ports, *, pause_ms: int) -> None:
        self.writing = SnapshotFailures(ports, SnapshotAccess.WRITE, pause_ms=pause_ms)
        self.reading = SnapshotFailures(ports, SnapshotAccess.READ, pause_ms=pause_ms)

    @property
    def count(self) -> int:
        return self.writing.count + self.reading.count

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        deadlines = [each.next_deadline_ms for each in (self.writing, self.reading)]
        return min((each for each in deadlines if each is not None), default=None)

    def poll(self, now: Instant) -> None:
        self.writing.poll(now)
        self.reading.poll(now)


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFiles:
    """The directory and the catalog of its complete snapshots, without the bootstrap checkpoint."""

    fs: Fs
    directory: Path
    catalog: Catalog
    settings: LogSettings
    has_bootstrap: bool = False
    """True when the directory was formatted for a dynamic quorum and its log still starts at 0."""

    @classmethod
    def open(
        cls, fs: Fs, directory: Path, *, log_start_offset: Offset, leader_epoch: Epoch | None, settings: LogSettings
    ) -> SnapshotFiles:
        """The snapshots that a start finds, in order and durable. A directory without snapshots is left unchanged.

        Errors: StorageError.
        """
        found = [file for file in map(parse_snapshot_file, fs.listdir(directory)) if file is not None]
        if any(file.snapshot_id != BOOTSTRAP_ID for file in found):
            Catalog.open(fs, directory, log_start_offset=log_start_offset, leader_epoch=leader_epoch)
        catalog = Catalog(fs, directory, real_snapshots(fs, directory))
        has_bootstrap = log_start_offset == 0 and BOOTSTRAP_ID in list_snapshots(fs, directory)
        return cls(fs=fs, directory=directory, catalog=catalog, settings=settings, has_bootstrap=has_bootstrap)

    def open_newest(self, deserializer: Deserializer[T]) -> SnapshotReader[T]:
        """On the bulk lane: open the newest snapshot. Errors: StorageError, CorruptionError."""
        newest = self.catalog.newest
        assert newest is not None, "where the log does not begin at 0, there is a snapshot"
        return SnapshotReader.of(self.fs, self.directory, newest, deserializer)

    def open_bootstrap(self, deserializer: Deserializer[T]) -> SnapshotReader[T]:
        """On the bulk lane: open the checkpoint that formatting wrote. Errors: StorageError, CorruptionError."""
        return SnapshotReader.of(self.fs, self.directory, BOOTSTRAP_ID, deserializer)

    def frozen(self, snapshot_id: OffsetAndEpoch) -> SnapshotFrozen:
        """On the bulk lane: a snapshot was frozen; the event for the core.

        One that cannot be read is not served, nor is the core told of it; the next start examines it.

        Errors: SnapshotFailedError, CorruptionError.
        """
        try:
            _, head = read_head(self.fs, self.directory, snapshot_id)
        except StorageError as error:
            raise unless_wrong(error) from error
        self.catalog.add(snapshot_id)
        return SnapshotFrozen(snapshot_id=snapshot_id, membership=head.membership)


def real_snapshots(fs: Fs, directory: Path) -> list[OffsetAndEpoch]:
    """Ids of the complete snapshots, oldest first, without the bootstrap checkpoint."""
    return [snapshot_id for snapshot_id in list_snapshots(fs, directory) if snapshot_id != BOOTSTRAP_ID]


def unless_wrong(error: StorageError) -> StorageError:
    """A SnapshotFailedError for a file that cannot be read now; the same error for bytes that can, and are wrong.

    Wrong bytes stay wrong: the node ends, and the next start sets the file aside or says what repairs it.
    """
    is_wrong = isinstance(error, CorruptionError) and not isinstance(error, ReadError)
    return error if is_wrong else SnapshotFailedError.of(error)
