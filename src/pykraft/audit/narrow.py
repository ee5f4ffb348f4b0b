"""Finds the first byte at which one replica's log differs from another's, in a range of offsets.

Both logs are read batch by batch from the last batch that the headers of the first lead to. Segments need not begin at
the same offsets. Invariant: everything before the returned byte, from the start of the range on, is equal.

Where a batch begins in the middle of a segment follows from the offset index and a few headers. The index is not
trusted: its entry must be that of the batch there, and each header must follow the one before it.

Source: ours; Kafka's ``OffsetIndex.lookup``.
"""

from __future__ import annotations

from bisect import bisect_right
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import CorruptionError, ProtocolError, StorageError
from pykraft.log.fs import File, Fs
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.paths import LOG, OFFSET_INDEX, base_offsets_in, segment_file
from pykraft.log.scan import scan_headers
from pykraft.log.walk import header_at
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, read_header
from pykraft.types import Epoch, Offset

Place = tuple[int, Offset]
"""Position of a batch, and its base offset."""


def batch_before(fs: Fs, directory: Path, base_offset: Offset, offset: Offset, end: int) -> Place:
    """The last batch at or before this offset that the headers lead to; at worst the first of the segment."""
    path = directory / segment_file(base_offset, LOG)
    found: Place = (0, base_offset)
    with suppress(CorruptionError, StorageError):
        delta, start = _entry_before(fs, path.with_suffix(OFFSET_INDEX), offset - base_offset)
        with closing(fs.open(path)) as file:
            expected = base_offset
            if start > 0:
                header = header_at(file, start)
                if header is None or header.last_offset != base_offset + delta:
                    return found
                expected = header.base_offset
            for position, header in scan_headers(path, file, max(0, start), end):
                if header.base_offset != expected or expected > offset:
                    break
                expected, found = header.end_offset, (position, header.base_offset)
    return found


def _entry_before(fs: Fs, path: Path, limit: int) -> tuple[int, int]:
    """Offset delta and position of the last entry below a delta, by binary search; zeros if there is none."""
    found = 0, 0
    if not fs.exists(path):
        return found
    with closing(fs.open(path)) as file:
        low, high = 0, file.size() // OFFSET_ENTRY.size
        while low < high:
            middle = (low + high) // 2
            delta, position = OFFSET_ENTRY.unpack(file.pread(OFFSET_ENTRY.size, middle * OFFSET_ENTRY.size))
            # Zeros follow the last entry of a preallocated file.
            if (delta, position) != (0, 0) and delta < limit:
                found, low = (delta, position), middle + 1
            else:
                high = middle
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class NarrowTask:
    """Compare a log with a reference, from one offset to another (exclusive). Both are partition directories."""

    reference: Path
    other: Path
    start_offset: Offset
    end_offset: Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class ByteDifference:
    """The first byte that differs, in both logs; ``offset`` is that of the batch in the reference."""

    offset: Offset
    path: Path
    position: int
    reference_path: Path
    reference_position: int
    reference_epoch: Epoch
    epoch: Epoch | None
    """Epoch of the other log's batch at this offset; None if it has no sound batch there."""


def first_difference(fs: Fs, task: NarrowTask) -> ByteDifference | None:
    """The first difference; None if there is none before one of the logs ends. Errors: StorageError."""
    with closing(_Pointer(fs, task.other)) as other, closing(_Pointer(fs, task.reference)) as reference:
        offset = other.go_to(task.start_offset)
        # The reference is sound there, or it would not be the reference; else nothing can be compared.
        if offset is None or reference.go_to(offset) != offset:
            return None
        while offset < task.end_offset and (header := reference.header(offset)) is not None:
            wanted = reference.read(header.size_bytes)
            if not other.has_more(offset):
                return None
            found = other.read(header.size_bytes)
            if found != wanted:
                return _difference(offset, header, reference, other, wanted, found)
            reference.position += len(wanted)
            other.position += len(wanted)
            offset = header.end_offset
    return None


def _difference(
    offset: Offset, header: BatchHeader, reference: _Pointer, other: _Pointer, wanted: bytes, found: bytes
) -> ByteDifference:
    pairs = enumerate(zip(wanted, found, strict=False))
    at = next((at for at, (one, two) in pairs if one != two), min(len(wanted), len(found)))
    own = other.header(offset)
    return ByteDifference(
        offset=offset,
        path=other.path,
        position=other.position + at,
        reference_path=reference.path,
        reference_position=reference.position + at,
        reference_epoch=header.epoch,
        epoch=None if own is None else own.epoch,
    )


class _Pointer:
    """A place in a log that moves on, also from one segment to the next."""

    def __init__(self, fs: Fs, partition: Path) -> None:
        self._fs = fs
        self._partition = partition
        self._base_offsets = base_offsets_in(fs.listdir(partition))
        self._file: File | None = None
        self._end = 0
        self.path = partition
        self.position = 0

    def go_to(self, offset: Offset) -> Offset | None:
        """Go to the batch at or before this offset; its offset. The first batch of a log that begins later."""
        if not self._base_offsets:
            return None
        at = max(0, bisect_right(self._base_offsets, offset) - 1)
        base_offset = self._base_offsets[at]
        self._open(base_offset)
        self.position, found = batch_before(self._fs, self._partition, base_offset, offset, self._end)
        return found

    def has_more(self, offset: Offset) -> bool:
        """Go to the next segment where one ends; False if the log ends here."""
        if self.position < self._end:
            return True
        if offset in self._base_offsets and self.path.name != segment_file(offset, LOG):
            self._open(offset)
            return self._end > 0
        return False

    def header(self, offset: Offset) -> BatchHeader | None:
        """The header of the sound batch here; None if there is none, or it has another offset."""
        if not self.has_more(offset):
            return None
        try:
            header = read_header(self.read(HEADER_SIZE_BYTES))
            check_crc(self.read(header.size_bytes), 0, header)
        except ProtocolError:
            return None
        return header if header.base_offset == offset else None

    def read(self, size_bytes: int) -> bytes:
        """Bytes from here on, without moving; fewer where the segment ends."""
        assert self._file is not None
        return self._file.pread(max(0, min(size_bytes, self._end - self.position)), self.position)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self, base_offset: Offset) -> None:
        self.close()
        self.path = self._partition / segment_file(base_offset, LOG)
        self._file = self._fs.open(self.path)
        self._end, self.position = self._file.size(), 0
