"""The open log files of one log; only a bounded number of segments is open at a time.

A log may have thousands of segments, and a process often has a limit of 1,024 descriptors. So a file is opened when it
is needed, and the least recently used ones are closed. Invariant: a file stays open from its first write until it is
synced and released. The kernel reports a background write error only to descriptors that were open when it happened, so
a descriptor opened later might miss it.

An evicted file closes when the last call on it returns, because nothing else refers to it then (see
`pykraft.log.fs.File`). Any thread reads; one thread writes.

A segment whose file is gone is damaged (`ReadError`). A reader whose segment was removed meanwhile notices that by the
log's generation.

Source: Kafka keeps every segment open (``FileRecords``); RocksDB's ``max_open_files`` is the model.
"""

from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.errors import ReadError, StorageError
from pykraft.log.fs import File, Fs
from pykraft.types import Buffer

OPEN_FILES_MAX: Final = 64
"""Files of one log that stay open although nothing is being written to them."""


class OpenFiles:
    """The open files of one log, least recently used first."""

    def __init__(self, fs: Fs, *, count_max: int = OPEN_FILES_MAX) -> None:
        self._fs = fs
        self._count_max = count_max
        self._files: OrderedDict[Path, File] = OrderedDict()
        self._lock = fs.mutex()
        """Otherwise a late reader could register a removed file again under a name that belongs to a new one."""

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
            # The file closes when the last call on it returns, because nothing else refers to it then.
            self._files.popitem(last=False)

    def _open(self, path: Path) -> File:
        try:
            return self._fs.open(path, write=True)
        except StorageError as error:
            if self._fs.exists(path):
                raise
            # The segment's file is gone: lost data, not a failing disk.
            raise ReadError(path, position=0, expected="the file of the segment", found="no such file") from error

    def create(self, path: Path) -> None:
        """Create the file if it is absent. Errors: StorageError."""
        with self._lock:
            self._keep(path, self._fs.open(path, create=True))

    def forget(self, path: Path) -> File | None:
        """Drop the file: its name means another file now, or none. Returns it if it was open."""
        with self._lock:
            return self._files.pop(path, None)


class SegmentFile:
    """The file of one segment, as a `pykraft.log.fs.File`; callers need not know whether it is open."""

    def __init__(self, files: OpenFiles, path: Path) -> None:
        self._files = files
        self._path = path
        self._held: File | None = None
        """The file, while it has writes that may not be durable."""

    def hold(self) -> None:
        """Keep the file open until `release`, because it is about to be written."""
        if self._held is None:
            self._held = self._files.get(self._path)

    def release(self) -> None:
        """All writes are durable: the file may be evicted again."""
        self._held = None

    def removed(self) -> None:
        """The name is gone already; a read in progress still gets its bytes."""
        self.release()
        self._files.forget(self._path)

    def pread(self, size_bytes: int, position: int) -> bytes:
        return self._file().pread(size_bytes, position)

    def pwrite(self, parts: Sequence[Buffer], position: int) -> int:
        self.hold()
        return self._file().pwrite(parts, position)

    def size(self) -> int:
        return self._file().size()

    def is_at(self, path: Path) -> bool:
        """See `pykraft.log.fs.File`; for a file that is not open, this only checks that the name exists."""
        try:
            return self._file().is_at(path)
        except ReadError:
            return False

    def truncate(self, size_bytes: int) -> None:
        self.hold()
        self._file().truncate(size_bytes)

    def sync(self) -> None:
        self._file().sync()

    def reserve(self, position: int, size_bytes: int) -> None:
        self._file().reserve(position, size_bytes)

    def unreserve(self) -> None:
        self._file().unreserve()

    def uncache(self, position: int, size_bytes: int) -> None:
        self._file().uncache(position, size_bytes)

    def close(self) -> None:
        for file in (self._held, self._files.forget(self._path)):
            if file is not None:
                file.close()
        self._held = None

    def _file(self) -> File:
        # A held file is never reopened: a new descriptor might miss the error of a write in the background.
        held = self._held  # another thread may release it meanwhile
        return held if held is not None else self._files.get(self._path)
