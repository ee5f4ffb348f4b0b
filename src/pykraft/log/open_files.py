"""The log files of all segments of one log, of which only so many are open at one time.

A log may have thousands of segments, and a process has a limit of descriptors, often 1,024. So a file is opened when it
is needed, and those that were not used for longest are closed. Invariant: a file stays open from the first write on
until it is synced and released. The error of a write in the background is reported to those who have the file open, so
a descriptor that was opened later might not hear of it.

A file that is evicted is closed when the last call on it returns, since nobody else refers to it then (see
`pykraft.log.fs.File`). Any thread reads; one thread writes.

A segment whose file is gone is damaged (`ReadError`). Whoever reads a segment that was removed in the meantime tells
that by the generation of the log.

Source: Kafka keeps every segment open (``FileRecords``); RocksDB's ``max_open_files`` is the example.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.errors import ReadError, StorageError
from pykraft.log.fs import File, Fs
from pykraft.types import Buffer

OPEN_FILES_MAX: Final = 64
"""Files of one log that are open though nothing is written to them."""


class OpenFiles:
    """The open files of one log, the one that was used last at the end."""

    def __init__(self, fs: Fs, *, count_max: int = OPEN_FILES_MAX) -> None:
        self._fs = fs
        self._count_max = count_max
        self._files: OrderedDict[Path, File] = OrderedDict()
        self._lock = fs.mutex()
        """A late reader must not put the removed file back under a name that means a new one by then."""

    def get(self, path: Path) -> File:
        """The file, open for reading and writing. Errors: ReadError when it is gone; StorageError."""
        with self._lock:
            file = self._files.get(path)
            if file is None:
                file = self._open(path)
            self._keep(path, file)
            return file

    def _keep(self, path: Path, file: File) -> None:
        self._files[path] = file
        self._files.move_to_end(path)
        while len(self._files) > self._count_max:
            self._files.popitem(last=False)

    def _open(self, path: Path) -> File:
        try:
            return self._fs.open(path, write=True)
        except StorageError as error:
            if self._fs.exists(path):
                raise
            raise ReadError(path, position=0, expected="the file of the segment", found="no such file") from error

    def create(self, path: Path) -> None:
        """Make the file if there is none. Errors: StorageError."""
        with self._lock:
            self._keep(path, self._fs.open(path, create=True))

    def forget(self, path: Path) -> File | None:
        """The name means another file from now on, or none; returns the one that was open."""
        with self._lock:
            return self._files.pop(path, None)


class SegmentFile:
    """One of them, as a `pykraft.log.fs.File` for those who do not care whether it is open."""

    def __init__(self, files: OpenFiles, path: Path) -> None:
        self._files = files
        self._path = path
        self._held: File | None = None
        """The file, while something was written that may not be durable."""

    def hold(self) -> None:
        """Keep the file open until `release`: it is about to be written."""
        if self._held is None:
            self._held = self._files.get(self._path)

    def release(self) -> None:
        """All that was written is durable, and nothing will be soon."""
        self._held = None

    def removed(self) -> None:
        """The name is gone already. Who reads at this moment goes on with the bytes."""
        self.release()
        self._files.forget(self._path)

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `pykraft.log.fs.File`."""
        return self._file().pread(size_bytes, position)

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        """See `pykraft.log.fs.File`."""
        self.hold()
        return self._file().pwrite(parts, position)

    def size(self) -> int:
        """See `pykraft.log.fs.File`."""
        return self._file().size()

    def is_at(self, path: Path) -> bool:
        """See `pykraft.log.fs.File`; of a file that is not open only its name is known."""
        try:
            return self._file().is_at(path)
        except ReadError:
            return False

    def truncate(self, size_bytes: int) -> None:
        """See `pykraft.log.fs.File`."""
        self.hold()
        self._file().truncate(size_bytes)

    def sync(self) -> None:
        """See `pykraft.log.fs.File`."""
        self._file().sync()

    def close(self) -> None:
        """See `pykraft.log.fs.File`."""
        for file in (self._held, self._files.forget(self._path)):
            if file is not None:
                file.close()
        self._held = None

    def _file(self) -> File:
        held = self._held  # another thread may release it meanwhile
        return held if held is not None else self._files.get(self._path)
