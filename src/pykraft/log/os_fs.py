"""The real file system: `pykraft.log.fs` on POSIX calls. Errors: see `pykraft.log.os_file`.

Source: POSIX ``open``, ``rename``, ``fsync``.
"""

from __future__ import annotations

import os
import threading
from contextlib import AbstractContextManager, closing
from pathlib import Path

from pykraft.errors import StorageError
from pykraft.log.fs import Lock, read_small
from pykraft.log.os_file import FILE_MODE, OsFile, SystemCall
from pykraft.log.os_lock import OsLock


class OsFs:
    """Directories and names of the real file system. It has no state."""

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> OsFile:
        """See `Fs.open`."""
        flags = os.O_RDWR if write or create else os.O_RDONLY
        with SystemCall(path, "create" if create else "open"):
            return OsFile(path, os.open(path, flags | (os.O_CREAT if create else 0), FILE_MODE))

    def exists(self, path: Path) -> bool:
        """See `Fs.exists`."""
        with SystemCall(path, "look up"):
            return path.exists()

    def listdir(self, path: Path) -> list[str]:
        """See `Fs.listdir`."""
        with SystemCall(path, "list"):
            return sorted(os.listdir(path))

    def mkdir(self, path: Path) -> None:
        """See `Fs.mkdir`. It never replaces a file that is not a directory."""
        if self.exists(path):
            if path.is_dir():
                return
            raise StorageError(path, "is not a directory", repair="name a directory, or one that can be created")
        with SystemCall(path, "create the directory"):
            path.mkdir(exist_ok=True)

    def rename(self, old: Path, new: Path) -> None:
        """See `Fs.rename`."""
        with SystemCall(new, f"rename {old.name} to it"):
            os.replace(old, new)

    def remove(self, path: Path, *, missing_ok: bool = False) -> None:
        """See `Fs.remove`."""
        with SystemCall(path, "remove"):
            try:
                os.remove(path)
            except FileNotFoundError:
                if not missing_ok:
                    raise

    def sync_dir(self, path: Path) -> None:
        """See `Fs.sync_dir`."""
        with SystemCall(path, "sync the directory"):
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def read(self, path: Path) -> bytes:
        """See `Fs.read`."""
        with closing(self.open(path)) as file:
            return read_small(file, path)

    def lock(self, path: Path) -> Lock:
        """See `Fs.lock`."""
        return OsLock(path)

    def mutex(self) -> AbstractContextManager[object]:
        """See `Fs.mutex`."""
        return threading.Lock()
