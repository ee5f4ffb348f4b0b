"""Snapshots of this node: served to others, retained and removed; all of it on the bulk lane.

The directory is cleaned once a minute by default, while there is more than one snapshot. Invariant: nothing is removed
before the core has moved the log start past it. A node without snapshots is never woken for them, and a slow disk
does not cause repeated wake-ups.

There is one download at a time, and the core learns the result of each piece in the next step. Bytes that do not
continue it are not appended; the core is told its end instead. A download that the core has abandoned for now stays
open, so that the same snapshot of the same leader continues at once. A part that cannot be written is removed, and for
a while no download begins. The core hears of that only after a third of its fetch timeout: so it goes on fetching,
neither too late for its leader nor in a rush.

Source: KIP-630; Kafka's ``KafkaRaftLog.maybeClean`` and ``KafkaRaftClient.handleFetchSnapshotRequest``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from pykraft.core.events import DownloadAdvanced, DownloadFailed, SnapshotFrozen, SnapshotsExpired
from pykraft.errors import ErrorCode, ProtocolError, SnapshotFailedError, StorageError
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.host.snapshots.creation import SnapshotReading
from pykraft.host.snapshots.files import SnapshotFailures, SnapshotFiles, SnapshotTroubles, unless_wrong
from pykraft.log.scrub import ScrubbableLog
from pykraft.snapshot.catalog import KeptSegment, Slice
from pykraft.snapshot.download import Download
from pykraft.types import Buffer, Epoch, Instant, OffsetAndEpoch

DownloadEvent: TypeAlias = DownloadAdvanced | DownloadFailed | SnapshotFrozen
T = TypeVar("T")
_Key: TypeAlias = tuple[OffsetAndEpoch, Epoch]


@dataclass(frozen=True, slots=True)
class _NotWritten:
    snapshot_id: OffsetAndEpoch
    error: SnapshotFailedError


class DownloadJobs:
    """The download of one node."""

    def __init__(
        self, ports: Ports, inbox: Inbox, files: SnapshotFiles, failures: SnapshotFailures, *, fetch_timeout_ms: int
    ) -> None:
        """``failures`` are those of writing."""
        self._failures = failures
        self._held_ms = fetch_timeout_ms // 3
        self._held: _Key | None = None
        """The download that waits, since another one could not be written a short time ago."""
        self._held_until_ms: int | None = None
        self._ports = ports
        self._inbox = inbox
        self._files = files
        self._wanted: _Key | None = None
        self._key: _Key | None = None
        self._download: Download | None = None

    def begin(self, snapshot_id: OffsetAndEpoch, leader_epoch: Epoch) -> None:
        self._wanted = (snapshot_id, leader_epoch)
        self._held = self._held_until_ms = None
        if self._failures.is_pausing:
            self._held = self._wanted
        else:
            self._go_on(self._wanted)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms)."""
        return self._held_until_ms

    def poll(self, now: Instant) -> None:
        """Go on with a download that waits, or fail it if it may not begin yet."""
        if self._held is None:
            return
        if self._held_until_ms is None:
            self._held_until_ms = now.mono_ms + self._held_ms
        elif not self._failures.is_pausing or self._held_until_ms <= now.mono_ms:
            key, self._held, self._held_until_ms = self._held, None, None
            if self._failures.is_pausing:
                # By way of the lane, since this step has taken its last event.
                self._ports.submit_read(partial(_too_soon, key[0]), self._report)
            else:
                self._go_on(key)

    def append(self, snapshot_id: OffsetAndEpoch, position: int, data: Buffer, *, is_last: bool) -> None:
        """Append these bytes if they continue the download; freeze the snapshot if they are the last."""
        act = partial(self._append, snapshot_id, position, data, is_last=is_last)
        self._ports.submit_read(lambda: self._attempt(snapshot_id, act), self._report)

    def abandon(self, snapshot_id: OffsetAndEpoch) -> None:
        self._ports.submit_read(lambda: self._abandon(snapshot_id), lambda _: None)

    def close(self) -> None:
        """Close the file, on any thread; no operation may be in progress."""
        if self._download is not None:
            self._download.close()

    def _go_on(self, key: _Key) -> None:
        act = partial(self._catch_up, key)
        self._ports.submit_read(lambda: self._attempt(key[0], act), partial(self._caught_up, key))

    def _caught_up(self, key: _Key, told: DownloadEvent | _NotWritten | None) -> None:
        if told is not None:
            self._report(told)
        # More remains to be checked, unless the core wants another snapshot by now.
        elif key == self._wanted:
            self._go_on(key)

    def _report(self, told: DownloadEvent | _NotWritten) -> None:
        if isinstance(told, _NotWritten):
            self._failures.failed(told.error)
            told = DownloadFailed(snapshot_id=told.snapshot_id, reason=str(told.error))
        elif isinstance(told, SnapshotFrozen):
            self._failures.succeeded()
        self._inbox.put(told)
        self._ports.wake_at(AT_ONCE_MS)

    def _attempt(self, snapshot_id: OffsetAndEpoch, act: Callable[[], T]) -> T | _NotWritten:
        """On the bulk lane: ``act``, or remove the part if it cannot be written."""
        try:
            return act()
        except SnapshotFailedError as error:
            self._abandon(snapshot_id)
            return _NotWritten(snapshot_id, error)

    def _catch_up(self, key: _Key) -> DownloadEvent | None:
        """On the bulk lane: check a piece of the stored part; None when more remains to be checked."""
        snapshot_id, leader_epoch = key
        if self._download is None or self._key != key:
            self.close()
            self._key, self._download = key, None
            self._download = Download(self._files.fs, self._files.directory, snapshot_id, leader_epoch=leader_epoch)
        if not self._download.catch_up():
            return None
        if self._download.is_whole:
            return self._freeze(self._download)
        return DownloadAdvanced(snapshot_id=snapshot_id, leader_epoch=leader_epoch, position=self._download.position)

    def _append(self, snapshot_id: OffsetAndEpoch, position: int, data: Buffer, *, is_last: bool) -> DownloadEvent:
        download, key = self._download, self._key
        if download is None or key is None or download.snapshot_id != snapshot_id:
            return DownloadFailed(snapshot_id=snapshot_id, reason="another snapshot is being fetched")
        # Bytes that do not continue the download are dropped: tell the core where it ends instead.
        if download.position == position:
            try:
                download.append(data)
                if is_last:
                    return self._freeze(download)
            except ProtocolError as error:
                self._abandon(snapshot_id)
                return DownloadFailed(snapshot_id=snapshot_id, reason=str(error))
        return DownloadAdvanced(snapshot_id=snapshot_id, leader_epoch=key[1], position=download.position)

    def _freeze(self, download: Download) -> SnapshotFrozen:
        download.freeze()
        self._download = None
        return self._files.frozen(download.snapshot_id)

    def _abandon(self, snapshot_id: OffsetAndEpoch) -> None:
        if self._download is not None and self._download.snapshot_id == snapshot_id:
            self._download.abandon()
            self._download = None


def _too_soon(snapshot_id: OffsetAndEpoch) -> DownloadEvent:
    return DownloadFailed(snapshot_id=snapshot_id, reason="another one could not be written a short time ago")


Found: TypeAlias = Slice | ErrorCode


class SnapshotStore:
    """The snapshots of one node, beside its log."""

    def __init__(
        self, ports: Ports, inbox: Inbox, files: SnapshotFiles, log: ScrubbableLog, *, fetch_timeout_ms: int
    ) -> None:
        self.troubles = troubles = SnapshotTroubles(ports, pause_ms=fetch_timeout_ms)
        self.reading = SnapshotReading(ports, files, troubles.reading)
        self.download_jobs = DownloadJobs(ports, inbox, files, troubles.writing, fetch_timeout_ms=fetch_timeout_ms)
        self._ports = ports
        self._inbox = inbox
        self._files = files
        self._log = log
        self._fetch_timeout_ms = fetch_timeout_ms
        self._clean_ms: int | None = None
        self._is_looking = False

    @property
    def next_deadline_ms(self) -> int | None:
        """When `poll` has something to do (mono ms); None while no snapshot could expire, and none has failed."""
        wake_ms = self._clean_ms if len(self._files.catalog.ids) > 1 else None
        for part in (self.troubles, self.download_jobs):
            other_ms = part.next_deadline_ms
            if wake_ms is None or (other_ms is not None and other_ms < wake_ms):
                wake_ms = other_ms
        return wake_ms

    def read(
        self,
        snapshot_id: OffsetAndEpoch,
        position: int,
        size_bytes_max: int,
        now: Instant,
        then: Callable[[Found], None],
    ) -> None:
        """Pass bytes of a snapshot to ``then``, or why there are none.

        Errors: SNAPSHOT_NOT_FOUND, POSITION_OUT_OF_RANGE; BROKER_NOT_AVAILABLE when the file cannot be read, after
        which replicas, Kafka's too, keep what they have and ask again after a back-off.
        """
        act = partial(self._read, snapshot_id, position, size_bytes_max, now.mono_ms)
        self._ports.submit_read(act, lambda found: then(self._checked(found)))

    def poll(self, now: Instant) -> None:
        """Go on after a failure, and look for expired snapshots, if it is time."""
        self.troubles.poll(now)
        self.download_jobs.poll(now)
        if len(self._files.catalog.ids) < 2:
            return
        if self._clean_ms is None:
            self._clean_ms = now.mono_ms + self._files.settings.clean_interval_ms
        if self._clean_ms > now.mono_ms:
            return
        # Even while a check is running: with a time in the past, a slow disk would wake the node without end.
        self._clean_ms = now.mono_ms + self._files.settings.clean_interval_ms
        if self._is_looking:
            return
        self._is_looking = True
        self._ports.submit_read(lambda: self._oldest_kept(now), self._looked)

    def retire_before(self, snapshot_id: OffsetAndEpoch) -> None:
        """The log starts here: retire older snapshots."""
        self._ports.submit_read(lambda: self._retire(snapshot_id), lambda _: None)

    def close(self) -> None:
        """Close all files; no operation may be in progress."""
        self.download_jobs.close()
        self._files.catalog.close()

    def _checked(self, found: Found | SnapshotFailedError) -> Found:
        if not isinstance(found, SnapshotFailedError):
            return found
        self.troubles.reading.failed(found)
        return ErrorCode.BROKER_NOT_AVAILABLE

    def _read(
        self, snapshot_id: OffsetAndEpoch, position: int, size_bytes_max: int, mono_ms: int
    ) -> Found | SnapshotFailedError:
        try:
            found = self._files.catalog.read(snapshot_id, position, size_bytes_max, mono_ms=mono_ms)
        except ProtocolError as error:
            return error.code
        except StorageError as error:
            return SnapshotFailedError.of(error)
        return ErrorCode.SNAPSHOT_NOT_FOUND if found is None else found

    def _oldest_kept(self, now: Instant) -> OffsetAndEpoch | SnapshotFailedError | None:
        """On the bulk lane: the oldest snapshot that is still needed; None when all are."""
        catalog = self._files.catalog
        segments = [KeptSegment(end_offset=view.end_offset, size_bytes=view.size_bytes) for view in self._log.views()]
        try:
            gone = catalog.expired(
                self._files.settings,
                segments,
                fetch_timeout_ms=self._fetch_timeout_ms,
                mono_ms=now.mono_ms,
                wall_ms=now.wall_ms,
            )
        except StorageError as error:
            failed = unless_wrong(error)
            if not isinstance(failed, SnapshotFailedError):
                raise
            return failed
        return catalog.ids[len(gone)] if gone else None

    def _looked(self, oldest_kept: OffsetAndEpoch | SnapshotFailedError | None) -> None:
        self._is_looking = False
        if isinstance(oldest_kept, SnapshotFailedError):
            self.troubles.reading.failed(oldest_kept)
        elif oldest_kept is not None:
            self._inbox.put(SnapshotsExpired(oldest_kept=oldest_kept))
            self._ports.wake_at(AT_ONCE_MS)

    def _retire(self, snapshot_id: OffsetAndEpoch) -> None:
        """On the bulk lane: retire older snapshots, unless a later call has retired this one as well."""
        if snapshot_id in self._files.catalog.ids:
            self._files.catalog.retire_before(snapshot_id)
