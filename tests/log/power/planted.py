"""File systems with a planted bug: each makes fewer or other system calls than it should."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.log.os_fs import OsFile, OsFs
from pykraft.types import Buffer


class BuggyFile:
    """A real file whose sync asks its file system first. It has all that `pykraft.log.fs.File` asks for."""

    def __init__(self, fs: BuggyFs, real: OsFile) -> None:
        self.path = real.path
        self.real = real
        self.is_cut = False
        self._fs = fs
        self.pread, self.size, self.is_at, self.close = real.pread, real.size, real.is_at, real.close
        self.reserve, self.unreserve, self.uncache = real.reserve, real.unreserve, real.uncache

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `File.pwrite`."""
        self.is_cut = False
        return self.real.pwrite(parts, position)

    def truncate(self, size_bytes: int) -> None:
        """See `File.truncate`."""
        self.is_cut = True
        self.real.truncate(size_bytes)

    def sync(self) -> None:
        """See `File.sync`."""
        self._fs.sync_file(self)


class BuggyFs(OsFs):
    """The real file system, with a place to plant a bug in."""

    def __init__(self) -> None:
        self.newest: BuggyFile | None = None
        self.last = ""
        """The last change of a name: rename (from suffix to suffix), remove or mkdir; empty after a sync."""

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> BuggyFile:  # type: ignore[override]
        """See `Fs.open`."""
        self.newest = BuggyFile(self, super().open(path, create=create, write=write))
        return self.newest

    def rename(self, old: Path, new: Path) -> None:
        """See `Fs.rename`."""
        super().rename(old, new)
        self.last = f"rename {old.suffix} to {new.suffix}"

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        """See `Fs.remove`."""
        super().remove(path, missing_ok=missing_ok)
        self.last = "remove"

    def mkdir(self, path: Path) -> None:
        """See `Fs.mkdir`."""
        super().mkdir(path)
        self.last = "mkdir"

    def sync_dir(self, path: Path) -> None:
        """See `Fs.sync_dir`."""
        last, self.last = self.last, ""
        self.sync_names(path, last)

    def sync_file(self, file: BuggyFile) -> None:
        """What a sync of a file does."""
        file.real.sync()

    def sync_names(self, path: Path, last: str) -> None:
        """What a sync of a directory does; ``last`` is the change before it."""
        del last
        OsFs.sync_dir(self, path)


class SyncsAnotherFile(BuggyFs):
    """A sync goes to the descriptor that was opened last."""

    def sync_file(self, file: BuggyFile) -> None:
        """The last one may be closed by now; then it is as asked."""
        newest = self.newest
        os.fdatasync(file.real.fileno() if newest is None or newest.real.fileno() < 0 else newest.real.fileno())


class SyncsParentDirectory(BuggyFs):
    """A sync of a directory goes to its parent."""

    def sync_names(self, path: Path, last: str) -> None:
        """One level too high."""
        super().sync_names(path.parent, last)


class ForgetsRenames(BuggyFs):
    """After a small file was renamed into place the directory is not synced."""

    forgotten = "rename .tmp"

    def sync_names(self, path: Path, last: str) -> None:
        """Nothing after such a change."""
        if not last.startswith(self.forgotten):
            super().sync_names(path, last)


class ForgetsFreezes(ForgetsRenames):
    """After a snapshot was renamed into place the directory is not synced."""

    forgotten = "rename .part"


class ForgetsRemovals(ForgetsRenames):
    """After a removal the directory is not synced."""

    forgotten = "remove"


class ForgetsNewDirectories(ForgetsRenames):
    """After a directory was made its parent is not synced."""

    forgotten = "mkdir"


class RenamesUnsynced(BuggyFs):
    """A small file is renamed into place without a sync before."""

    forgotten = ".tmp"

    def sync_file(self, file: BuggyFile) -> None:
        """Nothing for a file that is of this kind."""
        if file.path.suffix != self.forgotten:
            super().sync_file(file)


class FreezesUnsynced(RenamesUnsynced):
    """A snapshot is renamed into place without a sync before."""

    forgotten = ".part"


class AppendsUnsynced(RenamesUnsynced):
    """An append is told to be durable without a sync of the log file."""

    forgotten = ".log"


class ForgetsTruncations(BuggyFs):
    """A truncation is not synced before other batches follow."""

    def sync_file(self, file: BuggyFile) -> None:
        """Nothing for a file that was just cut."""
        if not file.is_cut:
            super().sync_file(file)


PLANTED: Final[list[tuple[type[BuggyFs], str, str]]] = [
    (SyncsAnotherFile, "appended and truncated", "broken promise: batches up to"),
    (SyncsParentDirectory, "first start, static", "broken promise: the disk is formatted"),
    (ForgetsRenames, "first start, static", "broken promise: the disk is formatted"),
    (ForgetsFreezes, "installed", "broken promise: nothing behind the snapshot"),
    (ForgetsFreezes, "cleaned", "broken promise: OffsetAndEpoch(offset=9, epoch=1) is frozen"),
    (ForgetsRemovals, "quarantined", "broken promise: it is over"),
    (ForgetsNewDirectories, "first start, static", "broken promise: the disk is formatted"),
    (RenamesUnsynced, "first start, static", "the node does not start"),
    (FreezesUnsynced, "installed", "the node does not start"),
    (AppendsUnsynced, "appended and truncated", "broken promise: batches up to"),
    (ForgetsTruncations, "appended and truncated", "broken promise: batches up to"),
]
"""Each with a story that shows it, and a part of the first finding."""
