"""The small files that tell how far a log reaches, as they were before the audit asked for its size.

A node may write while its directory is audited. The tasks read its log up to the size that the plan found; a recovery
point or an epoch of a moment later would call the rest lost.

Invariant: no file that is kept here is younger than the sizes in the plan.

Source: ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import Final, cast

from pykraft.errors import StorageError
from pykraft.log.fs import File, Fs
from pykraft.log.small_files import epoch_checkpoint, recovery_point

KEPT: Final = (recovery_point.FILE_NAME, epoch_checkpoint.FILE_NAME)


class EarlierFiles:
    """Reads as another file system does, but for the files in `KEPT`."""

    def __init__(self, fs: Fs, partitions: Iterable[Path]) -> None:
        """Read those files now; one that cannot be read is left to who wants it."""
        self._fs = fs
        self._kept: dict[Path, bytes] = {}
        for path in (partition / name for partition in partitions for name in KEPT):
            with suppress(StorageError), closing(fs.open(path)) as file:
                # A file as large as this is no longer of use: `verify` tells it.
                self._kept[path] = file.pread(min(file.size(), epoch_checkpoint.SIZE_BYTES_MAX + 1), 0)

    def as_fs(self) -> Fs:
        """For whoever reads a directory."""
        return cast("Fs", self)

    def open(self, path: Path) -> File:
        """See `Fs.open`, for reading."""
        kept = self._kept.get(path)
        return self._fs.open(path) if kept is None else cast("File", _Kept(kept))

    def read(self, path: Path) -> bytes:
        """See `Fs.read`."""
        kept = self._kept.get(path)
        return self._fs.read(path) if kept is None else kept

    def __getattr__(self, name: str) -> object:
        return getattr(self._fs, name)


class _Kept:
    """The content of one file."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `File.pread`."""
        return self._content[position : position + size_bytes]

    def size(self) -> int:
        """See `File.size`."""
        return len(self._content)

    def close(self) -> None:
        """Nothing is open."""
