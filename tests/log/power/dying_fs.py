"""A file system whose process is killed just before it syncs a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from pykraft.log.fs import Fs


class Killed(BaseException):
    """Nothing that the node could catch."""


class DyingFs:
    """Passes everything on to ``fs``, up to its n-th sync of a directory: there it raises `Killed` instead."""

    def __init__(self, fs: Fs, *, syncs: int) -> None:
        self._fs = fs
        self._syncs_left = syncs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._fs, name)

    def sync_dir(self, path: Path) -> None:
        """See `Fs.sync_dir`."""
        self._syncs_left -= 1
        if self._syncs_left <= 0:
            raise Killed
        self._fs.sync_dir(path)


def dying(fs: Fs, *, syncs: int) -> Fs:
    """Kill the process at this sync of a directory, counted from 1."""
    return cast(Fs, DyingFs(fs, syncs=syncs))
