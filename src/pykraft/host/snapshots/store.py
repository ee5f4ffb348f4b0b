"""Snapshots of this node: served to others, retained and removed; all of it on the bulk lane.

The directory is cleaned once a minute by default, while there is more than one snapshot. Invariant: nothing is removed
before the core has moved the log start past it. A node without snapshots is never woken for them, and a slow disk
does not cause repeated wake-ups.

`pykraft.host.snapshots.download` fetches snapshots, `pykraft.host.removal` frees the bytes of retired ones.

Source: KIP-630; Kafka's ``KafkaRaftLog.maybeClean``, ``KafkaRaftClient.handleFetchSnapshotRequest``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

from pykraft.core.events import SnapshotsExpired
from pykraft.errors import ErrorCode, ProtocolError, SnapshotFailedError, StorageError
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.host.snapshots.download import DownloadJobs
from pykraft.host.snapshots.failures import SnapshotTroubles
from pykraft.host.snapshots.files import SnapshotFiles, unless_wrong
from pykraft.host.snapshots.loading import SnapshotOpening
from pykraft.log.scrub import ScrubbableLog
from pykraft.snapshot.catalog import Slice
from pykraft.snapshot.retention import KeptSegment
from pykraft.types import Instant, OffsetAndEpoch

Found: TypeAlias = Slice | ErrorCode


class SnapshotStore:
    """The snapshots of one node, beside its log."""

    def __init__(
        self, ports: Ports, inbox: Inbox, files: SnapshotFiles, log: ScrubbableLog, *, fetch_timeout_ms: int
    ) -> None:
        self.troubles = troubles = SnapshotTroubles(ports, pause_ms=fetch_timeout_ms)
        self.opening = SnapshotOpening(ports, files, troubles.reading)
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
