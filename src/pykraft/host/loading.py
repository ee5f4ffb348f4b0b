"""What a listener does with snapshots, and which one it must be given before it can go on.

Owns the choice. Invariant: a snapshot is given only in the place of records that the listener was not given: to one
that was given nothing yet, the newest there is, or the checkpoint that the directory was formatted with; to one that
fell behind the log start, the newest. It refuses to know how the files are read, and when a listener may be called.

Source: KIP-630, KIP-853, KIP-1170; Kafka's ``KafkaRaftClient.updateListenersProgress`` and ``RaftClient.Listener``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from pykraft.host.snapshot_files import SnapshotFiles
from pykraft.snapshot.reader import Deserializer, SnapshotReader
from pykraft.types import Offset, OffsetAndEpoch

OnSkipped: TypeAlias = Callable[[Offset, Offset], None]
"""Is told what a listener without a loader misses: from this offset to that one (exclusive), the log start."""


@dataclass(frozen=True, slots=True)
class Loader:
    """What a listener does with snapshots: ``deserializer`` makes their records, ``load`` is given the open reader.

    Whoever loads it closes it. The listener is called as `pykraft.host.delivery.Listener` says: each of these takes the
    place of ``on_commit``.
    """

    deserializer: Deserializer[Any]
    load: Callable[[SnapshotReader[Any]], None]
    bootstrap: Callable[[SnapshotReader[Any]], None] | None = None
    """Is given the bootstrap checkpoint; the records from 0 on follow. None: it is of no interest."""
    save: Callable[[OffsetAndEpoch], None] | None = None
    """Is asked for a snapshot of all that was given, which ends here. None: it takes none."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A snapshot to be given: ``open`` is for the bulk lane, ``load`` gets what it returns."""

    open: Callable[[], SnapshotReader[Any]]
    load: Callable[[SnapshotReader[Any]], None]


class Loading:
    """The snapshots of one listener, or what it misses without them."""

    def __init__(
        self, loader: Loader | None, files: SnapshotFiles, *, is_fresh: bool, on_skipped: OnSkipped | None = None
    ) -> None:
        """``is_fresh``: nothing was given yet, and a snapshot may take the place of all that is in it."""
        self.loader = loader
        self._files = files
        self._is_fresh = is_fresh
        self._on_skipped = on_skipped

    @property
    def can_save(self) -> bool:
        """True when the listener is to be asked for its state."""
        return self.loader is not None and self.loader.save is not None

    def skipped(self, next_offset: Offset, start_offset: Offset) -> None:
        """A listener without a loader goes on at the log start."""
        if self._on_skipped is not None:
            self._on_skipped(next_offset, start_offset)

    def given(self) -> None:
        """The listener was given something."""
        self._is_fresh = False

    def wanted(self, next_offset: Offset, start_offset: Offset) -> Wanted | None:
        """What comes before the record at ``next_offset``, in a log that begins at ``start_offset``; None: nothing."""
        loader, files, newest = self.loader, self._files, self._files.catalog.newest
        if loader is None:
            return None
        is_first = self._is_fresh and newest is not None and next_offset < newest.offset
        if is_first or next_offset < start_offset:
            return Wanted(partial(files.open_newest, loader.deserializer), loader.load)
        if self._is_fresh and files.has_bootstrap and loader.bootstrap is not None and next_offset == 0:
            return Wanted(partial(files.open_bootstrap, loader.deserializer), loader.bootstrap)
        return None
