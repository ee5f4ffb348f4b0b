"""A disk that says that it does not work: errors on the operations to come, no room, or no answer for a while.

Owns what is to fail, and tells when it did. Invariant: every error that it makes is a `DiskError`, so that a program
that ends because of it can be told from one that ends for a reason of its own.

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
_WORDS: Final = {
    READ_ERROR: "cannot read: Input/output error",
    WRITE_ERROR: "cannot write: Input/output error",
    SYNC_ERROR: "cannot sync: Input/output error",
    DISK_FULL: "cannot write: No space left on device",
}


class DiskError(StorageError):
    """An error that was planted."""


class IoErrors:
    """What is wrong with one disk."""

    def __init__(self) -> None:
        self.stalled_until_us = 0
        """Until then (virtual time) nothing that was asked of the disk is done."""
        self.on_error: Callable[[str], None] = lambda _: None
        """Told the kind of each error that was given."""
        self._left: dict[str, int] = {}
        self._concerns: dict[str, Callable[[Path], bool]] = {}
        """By kind: which files have it; all when it is not here."""

    def plan(self, kind: str, operations: int, *, concerns: Callable[[Path], bool] | None = None) -> None:
        """Let that many operations of this kind succeed, and then all fail until `mend`.

        ``concerns``: only operations on such files count, and fail.
        """
        self._left[kind] = operations
        self._concerns.pop(kind, None)
        if concerns is not None:
            self._concerns[kind] = concerns

    @property
    def is_planned(self) -> bool:
        """True when some operations fail, or will."""
        return bool(self._left)

    def mend(self) -> None:
        """The disk was replaced, or has room again: nothing fails from now on."""
        self._left.clear()
        self._concerns.clear()
        self.stalled_until_us = 0

    def before_read(self, path: Path) -> None:
        """Errors: DiskError."""
        self._count(READ_ERROR, path)

    def before_write(self, path: Path, *, is_growth: bool) -> None:
        """Errors: DiskError; on a full disk for a file that grows."""
        self._count(WRITE_ERROR, path)
        if is_growth:
            self._count(DISK_FULL, path)

    def before_sync(self, path: Path) -> None:
        """Errors: DiskError."""
        self._count(SYNC_ERROR, path)

    def _count(self, kind: str, path: Path) -> None:
        if kind not in self._left or (kind in self._concerns and not self._concerns[kind](path)):
            return
        self._left[kind] -= 1
        if self._left[kind] < 0:
            self.on_error(kind)
            raise DiskError(path, _WORDS[kind])
