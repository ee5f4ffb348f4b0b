"""Which snapshot a listener gets before it can continue with records.

Invariant: a snapshot only replaces records that the listener has not been given. A new listener gets the newest
snapshot, or the bootstrap checkpoint of a formatted directory. A listener that fell behind the log start gets the
newest.

Source: KIP-630, KIP-853, KIP-1170; Kafka's ``KafkaRaftClient.updateListenersProgress`` and ``RaftClient.Listener``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from pykraft.errors import SnapshotFailedError, StorageError
from pykraft.host.ports import Ports
from pykraft.host.snapshots.failures import SnapshotFailures
from pykraft.host.snapshots.files import SnapshotFiles, unless_wrong
from pykraft.snapshot.reader import Deserializer, SnapshotReader
from pykraft.types import Offset, OffsetAndEpoch

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


class SnapshotOpening:
    """Opens snapshots on the bulk lane, again and again until one can be read."""

    def __init__(self, ports: Ports, files: SnapshotFiles, failures: SnapshotFailures) -> None:
        """``failures`` are those of reading."""
        self.files = files
        self._ports = ports
        self._failures = failures

    def open(self, wanted: SnapshotToLoad, then: Callable[[SnapshotReader[Any]], None]) -> None:
        """Pass the open snapshot to ``then``, which a disk that cannot read it only delays."""

        def act() -> SnapshotReader[Any] | SnapshotFailedError:
            try:
                return wanted.open()
            except StorageError as error:
                failed = unless_wrong(error)
                if not isinstance(failed, SnapshotFailedError):
                    raise
                return failed

        def done(opened: SnapshotReader[Any] | SnapshotFailedError) -> None:
            if isinstance(opened, SnapshotFailedError):
                self._failures.failed(opened)
                self._failures.after_pause(lambda: self.open(wanted, then))
            else:
                then(opened)

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
        """Something was delivered to the listener."""
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
