"""One object as a `pykraft.log.fs.File` for reading, with few requests and little memory.

A request to object storage takes tens of milliseconds, whatever its size. So small reads here and there take a whole
block, and blocks are kept (an offset index is searched by halving); reads that follow each other take more and more at
a time, up to AHEAD_SIZE_BYTES. Who reads a known range front to back says so (`RemoteFile.expect`): then the next part
is already on its way, and nothing after the range is fetched.

Invariant: memory holds at most BLOCKS_MAX blocks, and three times AHEAD_SIZE_BYTES or a larger read.

Source: ours.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from pykraft.errors import StorageError
from pykraft.log.fs import File
from pykraft.object_storage.stores import ObjectReader
from pykraft.object_storage.uris import UriPath
from pykraft.types import Buffer

BLOCK_SIZE_BYTES: Final = 64 * 1024
BLOCKS_MAX: Final = 32
AHEAD_SIZE_BYTES: Final = 8 * 1024 * 1024
SKIPS_MAX: Final = 4
"""Reads follow each other if the gap between them is at most so many times as long as they are."""


class RemoteFile:
    """An object that is opened by its first read."""

    def __init__(self, path: UriPath, open_reader: Callable[[], ObjectReader], size_bytes: int | None) -> None:
        """``size_bytes`` is None if no listing has told it."""
        self.path = path
        self._open_reader = open_reader
        self._reader: ObjectReader | None = None
        self._size_bytes = size_bytes
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        self._window = (0, b"")
        self._last = (0, 0)
        self._ahead_size_bytes = BLOCK_SIZE_BYTES
        self._expected = (0, 0)
        self._coming: tuple[int, Future[bytes]] | None = None
        self._pool: ThreadPoolExecutor | None = None

    def size(self) -> int:
        """See `File.size`."""
        if self._size_bytes is None:
            self._size_bytes = self._opened().size_bytes
        return self._size_bytes

    def expect(self, position: int, end: int) -> None:
        """The bytes from ``position`` to ``end`` (exclusive) will be read, front to back."""
        self._expected = (position, min(end, self.size()))

    def pread(self, size_bytes: int, position: int) -> bytes:
        """See `File.pread`. Errors: StorageError."""
        end = min(position + size_bytes, self.size())
        if end <= position:
            return b""
        last, self._last = self._last, (position, end)
        found = self._held(position, end)
        if found is not None:
            return found
        begin, until = self._expected
        if begin <= position and end <= until:
            return self._slide(position, end, until, AHEAD_SIZE_BYTES)
        # A walk over headers skips records; a search jumps further than it reads.
        if last[1] and last[0] <= position <= last[1] + SKIPS_MAX * (end - position):
            self._ahead_size_bytes = min(2 * self._ahead_size_bytes, AHEAD_SIZE_BYTES)
            return self._slide(position, end, self.size(), self._ahead_size_bytes)
        self._ahead_size_bytes = BLOCK_SIZE_BYTES
        block = position // BLOCK_SIZE_BYTES
        if end <= (block + 1) * BLOCK_SIZE_BYTES:
            return self._block(block, position, end)
        return self._fetch(position, end)

    def _held(self, position: int, end: int) -> bytes | None:
        """These bytes, if they are in memory."""
        start, data = self._window
        if start <= position and end <= start + len(data):
            return data[position - start : end - start]
        block = position // BLOCK_SIZE_BYTES
        if block in self._blocks and end <= (block + 1) * BLOCK_SIZE_BYTES:
            return self._block(block, position, end)
        return None

    def _block(self, block: int, position: int, end: int) -> bytes:
        """Bytes of a block, which is kept."""
        start = block * BLOCK_SIZE_BYTES
        if block not in self._blocks:
            self._blocks[block] = self._fetch(start, min(start + BLOCK_SIZE_BYTES, self.size()))
            if len(self._blocks) > BLOCKS_MAX:
                self._blocks.popitem(last=False)
        self._blocks.move_to_end(block)
        return self._blocks[block][position - start : end - start]

    def _slide(self, position: int, end: int, until: int, ahead_size_bytes: int) -> bytes:
        """Move the window forward, so that it holds these bytes and more, up to ``until``."""
        start, data = self._window
        window_end = start + len(data)
        # What is held of the bytes already, such as a batch whose end was missing.
        kept = data[position - start :] if start <= position < window_end else b""
        begin = position + len(kept)
        parts = [kept]
        if self._coming is not None and self._coming[0] == begin:
            parts.append(self._coming[1].result())
            begin += len(parts[-1])
        self._coming = None
        if begin < end:
            parts.append(self._fetch(begin, max(end, min(begin + ahead_size_bytes, until))))
            begin += len(parts[-1])
        self._window = (position, b"".join(parts))
        if self._expected[1] == until and begin < until:
            self._begin_next(begin, min(begin + AHEAD_SIZE_BYTES, until))
        return self._window[1][: end - position]

    def _begin_next(self, position: int, end: int) -> None:
        """Fetch the next part while this one is being decoded."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="read ahead")
        self._coming = (position, self._pool.submit(self._fetch, position, end))

    def _fetch(self, position: int, end: int) -> bytes:
        return self._opened().read(end - position, position)

    def _opened(self) -> ObjectReader:
        if self._reader is None:
            self._reader = self._open_reader()
        return self._reader

    def close(self) -> None:
        """See `File.close`."""
        self._window, self._coming = (0, b""), None
        self._blocks.clear()
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)
            self._pool = None
        reader, self._reader = self._reader, None
        if reader is not None:
            # Everything that was asked for has been read: how the connection ends is of no interest.
            with suppress(StorageError):
                reader.close()

    def is_at(self, path: Path) -> bool:
        """See `File.is_at`."""
        return self.path == path

    def pwrite(self, parts: Sequence[Buffer], position: int) -> NoReturn:
        """Never."""
        del parts, position
        raise refusal(self.path)

    def truncate(self, size_bytes: int) -> NoReturn:
        """Never."""
        del size_bytes
        raise refusal(self.path)

    def sync(self) -> NoReturn:
        """Never."""
        raise refusal(self.path)

    def reserve(self, position: int, size_bytes: int) -> None:
        """Nothing: see `File.reserve`."""

    def unreserve(self) -> None:
        """Nothing: see `File.unreserve`."""

    def uncache(self, position: int, size_bytes: int) -> None:
        """Nothing: see `File.uncache`."""


def expect_reads(file: File, position: int, end: int) -> None:
    """Say that this range of a file will be read front to back; the system does without for a file of this machine."""
    if isinstance(file, RemoteFile):
        file.expect(position, end)


def refusal(path: Path) -> AssertionError:
    """Nothing here writes."""
    return AssertionError(f"{path}: object storage is only read")
