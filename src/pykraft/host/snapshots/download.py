"""The snapshot download of a node on the bulk lane: begin, continue, append, freeze.

There is one download at a time. Invariant: it is touched on the bulk lane only, piece by piece, and the core learns the
result of each piece in the next step. Bytes that do not continue it are not appended; the core is told its end instead.
A download that the core has abandoned for now stays open, so that the same snapshot of the same leader continues at
once.

A part that cannot be written is removed, and for a while no download begins. The core hears of each one that it failed,
but only after a third of its fetch timeout: so it goes on fetching, neither too late for its leader nor in a rush.

Source: KIP-630 §FetchSnapshot; Kafka's ``KafkaRaftClient.handleFetchSnapshotResponse``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVar

from pykraft.core.events import DownloadAdvanced, DownloadFailed, SnapshotFrozen
from pykraft.errors import ProtocolError, SnapshotFailedError
from pykraft.host.inbox import Inbox
from pykraft.host.ports import AT_ONCE_MS, Ports
from pykraft.host.snapshots.failures import SnapshotFailures
from pykraft.host.snapshots.files import SnapshotFiles
from pykraft.snapshot.download import Download
from pykraft.types import Buffer, Epoch, Instant, OffsetAndEpoch

DownloadEvent: TypeAlias = DownloadAdvanced | DownloadFailed | SnapshotFrozen
T = TypeVar("T")
_Key: TypeAlias = tuple[OffsetAndEpoch, Epoch]


@dataclass(frozen=True, slots=True)
class _NotWritten:
    """The part of this snapshot could not be written."""

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
        """Download this snapshot from the leader of this epoch, or continue."""
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
                self._ports.submit_read(partial(_too_soon, key[0]), self._tell)
            else:
                self._go_on(key)

    def append(self, snapshot_id: OffsetAndEpoch, position: int, data: Buffer, *, is_last: bool) -> None:
        """Append these bytes if they continue the download; freeze the snapshot if they are the last."""
        act = partial(self._append, snapshot_id, position, data, is_last=is_last)
        self._ports.submit_read(lambda: self._attempt(snapshot_id, act), self._tell)

    def abandon(self, snapshot_id: OffsetAndEpoch) -> None:
        """Remove the stored part of this snapshot."""
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
            self._tell(told)
        # More remains to be checked, unless the core wants another snapshot by now.
        elif key == self._wanted:
            self._go_on(key)

    def _tell(self, told: DownloadEvent | _NotWritten) -> None:
        """Pass the result to the core in the next step."""
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
