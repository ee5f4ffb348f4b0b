"""Open errors of a disk: operations that fail, a full disk, and stalls.

Invariant: every error raised here is a `DiskError`, so the simulator can tell a program that ended because of its disk
from one that ended for another reason.

Source: Prabhakaran et al., IRON File Systems (SOSP 2005); PostgreSQL's fsync failure of 2018.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from pykraft.errors import StorageError

READ_ERROR: Final = "read error"
WRITE_ERROR: Final = "write error"
SYNC_ERROR: Final = "fsync error"
DISK_FULL: Final = "disk full"
NO_SNAPSHOT_ROOM: Final = "no room for snapshots"
SNAPSHOT_UNREADABLE: Final = "unreadable snapshots"
_WORDS: Final = {
    READ_ERROR: "cannot read: Input/output error",
    WRITE_ERROR: "cannot write: Input/output error",
    SYNC_ERROR: "cannot sync: Input/output error",
    DISK_FULL: "cannot write: No space left on device",
    NO_SNAPSHOT_ROOM: "cannot write: No space left on device",
    SNAPSHOT_UNREADABLE: "cannot read: Input/output error",
}


class DiskError(StorageError):
    """An error that a fault planned."""


class SnapshotDiskError(DiskError):
    """Only snapshots cannot be written or read: no reason to end."""


class IoErrors:
    """The errors of one disk."""

    def __init__(self) -> None:
        self.stalled_until_us = 0
        """Until this virtual time the disk carries out nothing."""
        self.on_error: Callable[[str], None] = lambda _: None
        """Called with the kind of each error that the disk gives."""
        self._left: dict[str, int] = {}
        self._concerns: dict[str, Callable[[Path], bool]] = {}
        """By kind: which files it concerns; a kind that is not here concerns all files."""

    def plan(self, kind: str, operations: int, *, concerns: Callable[[Path], bool] | None = None) -> None:
        """Let this many operations of this kind succeed; then all of them fail until `mend`.

        ``concerns``: only operations on these files are counted and fail.
        """
        self._left[kind] = operations
        self._concerns.pop(kind, None)
        if concerns is not None:
            self._concerns[kind] = concerns

    @property
    def is_planned(self) -> bool:
        """True when operations fail, now or later."""
        return bool(self._left)

    def mend_kind(self, kind: str) -> None:
        """Operations of this kind fail no more."""
        self._left.pop(kind, None)
        self._concerns.pop(kind, None)

    def mend(self) -> None:
        """Replace the disk, or give it room: nothing fails from now on."""
        self._left.clear()
        self._concerns.clear()
        self.stalled_until_us = 0

    def before_read(self, path: Path) -> None:
        """Errors: DiskError."""
        self._count(READ_ERROR, path)
        self._count(SNAPSHOT_UNREADABLE, path)

    def before_write(self, path: Path, *, is_growth: bool) -> None:
        """Errors: DiskError; on a full disk only for a file that grows."""
        self._count(WRITE_ERROR, path)
        if is_growth:
            self._count(DISK_FULL, path)
            self._count(NO_SNAPSHOT_ROOM, path)

    def before_sync(self, path: Path) -> None:
        """Errors: DiskError."""
        self._count(SYNC_ERROR, path)

    def _count(self, kind: str, path: Path) -> None:
        if kind not in self._left or (kind in self._concerns and not self._concerns[kind](path)):
            return
        self._left[kind] -= 1
        if self._left[kind] < 0:
            self.on_error(kind)
            is_of_snapshots = kind in {NO_SNAPSHOT_ROOM, SNAPSHOT_UNREADABLE}
            raise (SnapshotDiskError if is_of_snapshots else DiskError)(path, _WORDS[kind])
