"""The real file system with a gate before every sync: a disk that stalls or fails on request.

Everything else is `pykraft.log.os_fs.OsFs`.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path

from pykraft.errors import StorageError
from pykraft.log.os_fs import OsFile, OsFs

TIMEOUT_S = 20.0


class StallingFs(OsFs):
    """Syncs wait while the gate is closed; ``fails`` makes them fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()
        self.is_stalled = threading.Event()
        self.fails = False

    def open(self, path: Path, *, create: bool = False, write: bool = False) -> OsFile:
        """See `pykraft.log.fs.Fs`."""
        file = super().open(path, create=create, write=write)
        gated = _GatedFile(self, path, os.dup(file.fileno()))
        file.close()
        return gated

    def pass_gate(self, path: Path) -> None:
        """Wait until syncs may go on. Errors: StorageError when they fail."""
        if not self.gate.is_set():
            self.is_stalled.set()
            assert self.gate.wait(TIMEOUT_S)
        if self.fails:
            raise StorageError(path, "input/output error")


class _GatedFile(OsFile):
    def __init__(self, fs: StallingFs, path: Path, descriptor: int) -> None:
        super().__init__(path, descriptor)
        self._fs = fs

    def sync(self) -> None:
        self._fs.pass_gate(self.path)
        super().sync()
