"""Finds where batches begin in the middle of a segment, with the offset index and a few headers.

The index is not trusted: its entry must be that of the batch that begins there, and each header from there on must
follow the one before it. Where that fails there is no answer, so no task begins there. Invariant: the answer follows
from the bytes alone, so two tasks that ask for the same cut get the same answer.

Source: Kafka's ``OffsetIndex.lookup``.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from pykraft.errors import CorruptionError, ProtocolError, StorageError
from pykraft.log.fs import File, Fs
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.paths import LOG, OFFSET_INDEX, segment_file
from pykraft.log.scan import scan_headers
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, read_header
from pykraft.types import Offset

Place = tuple[int, Offset]
"""Position of a batch, and its base offset."""


def batch_from(fs: Fs, directory: Path, base_offset: Offset, cut: int, end: int) -> Place | None:
    """The first batch of a segment that begins at or after this position; None if nobody can tell."""
    if cut == 0:
        return 0, base_offset
    *_, last = _chain(fs, directory, base_offset, end, lambda _, position: position <= cut, lambda p, _: p >= cut)
    return last if last is not None and last[0] >= cut else None


def batch_before(fs: Fs, directory: Path, base_offset: Offset, offset: Offset, end: int) -> Place:
    """The last batch at or before this offset that the headers lead to; at worst the first of the segment."""
    found: Place = (0, base_offset)
    delta = offset - base_offset
    for place in _chain(fs, directory, base_offset, end, lambda last, _: last < delta, lambda _, o: o > offset):
        if place is not None and place[1] <= offset:
            found = place
    return found


def _chain(
    fs: Fs,
    directory: Path,
    base_offset: Offset,
    end: int,
    is_before: Callable[[int, int], bool],
    is_enough: Callable[[int, Offset], bool],
) -> list[Place | None]:
    """Places of the batches from an index entry on, until it is enough; a None at the end if the headers end it."""
    path = directory / segment_file(base_offset, LOG)
    found: list[Place | None] = [None]
    try:
        entry = _entry(fs, path.with_suffix(OFFSET_INDEX), is_before)
        with closing(fs.open(path)) as file:
            start = 0
            if entry is not None:
                start = entry[1]
                header = _header_at(file, start)
                if header is None or header.last_offset != base_offset + entry[0]:
                    return [None]
            expected: Offset | None = base_offset if start == 0 else None
            for position, header in scan_headers(path, file, start, end):
                if expected is not None and header.base_offset != expected:
                    return [*found, None]
                expected = header.end_offset
                found = [*found[-1:], (position, header.base_offset)]
                if is_enough(position, header.base_offset):
                    return found
    except (CorruptionError, StorageError):
        pass
    return [*found, None]


def _entry(fs: Fs, path: Path, is_before: Callable[[int, int], bool]) -> tuple[int, int] | None:
    """The last entry before something, by binary search: its offset delta and position."""
    if not fs.exists(path):
        return None
    with closing(fs.open(path)) as file:
        low, high = 0, file.size() // OFFSET_ENTRY.size
        found: tuple[int, int] | None = None
        while low < high:
            middle = (low + high) // 2
            delta, position = OFFSET_ENTRY.unpack(file.pread(OFFSET_ENTRY.size, middle * OFFSET_ENTRY.size))
            # Zeros follow the last entry of a preallocated file.
            if (delta, position) != (0, 0) and is_before(delta, position):
                found, low = (delta, position), middle + 1
            else:
                high = middle
        return found if found is None or found[1] >= 0 else None


def _header_at(file: File, position: int) -> BatchHeader | None:
    try:
        return read_header(file.pread(HEADER_SIZE_BYTES, position))
    except ProtocolError:
        return None
