"""Walks over a log in strides of many batches: a segment's offset index says where batches start.

A walk over every header (`pykraft.spark.data_source.walk`) reads every page of each segment, on the driver alone: hours
for a log of 10 TiB. To cut a log into splits it is enough to know batches near the ends of splits. So this walk only
reads the headers between two entries of the index, once per stride: there it finds the last batch of a stride and the
first of the next. `pykraft.spark.data_source.splits` checks what lies between when it reads it.

Invariant: strides follow each other without a gap of offsets, and each starts and ends between two batches. The index
is not trusted: if an entry does not point at the batch that holds its offset, right after the end of another batch, the
walk reads every header of the rest of the segment. This also finds the end of the newest segment, which may be torn.

Source: Kafka's ``OffsetIndex`` and ``LogSegment.translateOffset``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from pykraft.errors import CorruptionError, ProtocolError, StorageError
from pykraft.log.fs import File, Fs
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.paths import OFFSET_INDEX
from pykraft.log.scan import scan_headers
from pykraft.log.tail import Expected
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, read_header
from pykraft.spark.data_source.segment_walk import BatchSpan, WalkState, base_offset_of, walk_segment
from pykraft.spark.data_source.walk import Cursor, ReplicaLog
from pykraft.types import Offset

STRIDE_SIZE_BYTES: Final = 16 * 1024 * 1024
NOWHERE: Final = 2**63


class _Unusable(Exception):
    """An index, or the batch that it points at, is invalid."""


def stride_over(replica: ReplicaLog, cursor: Cursor, *, size_bytes: int = STRIDE_SIZE_BYTES) -> Iterator[BatchSpan]:
    """Everything from the cursor to the current log end, in spans of about this many bytes.

    Errors: as `ReplicaLog.walk`, except for damage within a stride, which its reader finds.
    """
    for state in replica.from_cursor(cursor):
        with suppress(_Unusable):
            yield from _strides(state, size_bytes)
        yield from walk_segment(state, tolerant=False)


def _strides(state: WalkState, size_bytes: int) -> Iterator[BatchSpan]:
    """The rest of a segment or, of the newest, whose end offset is not known yet, what its index leads to.

    Errors: _Unusable; StorageError.
    """
    segment = state.segment
    end_offset = base_offset_of(state.later[0]) if state.later else None
    if end_offset is None:
        # The walk reads every header of what is left of the newest segment after the last stride.
        size_bytes = min(size_bytes, STRIDE_SIZE_BYTES)
    with closing(_open_index(state.fs, segment)) as index, closing(state.fs.open(segment)) as file:
        look = _Look(segment, file, _Entries(index, base_offset_of(segment)))
        segment_end = file.size()
        first = look.header(state.position) if state.position < segment_end else None
        while first is not None:
            position = state.position
            at = None if segment_end - position <= size_bytes else look.entries.cut_after(position, size_bytes)
            if at is None and end_offset is None:
                return
            cut = segment_end if at is None else look.entries[at][1]
            last_position, last = look.last_before(at, cut, position)
            behind = Expected(base_offset=last.end_offset, epoch=last.epoch)
            following = None if at is None else look.header_of(at)
            goes_on = last.end_offset == end_offset if following is None else behind.is_met_by(following)
            if not goes_on or last.base_offset < first.base_offset:
                raise _Unusable
            _check(state, ((position, first), (last_position, last)))
            one = BatchSpan(
                segment=segment,
                position=position,
                last_position=last_position,
                end_position=cut,
                offset=first.base_offset,
                end_offset=last.end_offset,
                first=first,
                header=last,
            )
            state.pass_over(one)
            yield one
            first = following


def _check(state: WalkState, ends: Sequence[tuple[int, BatchHeader]]) -> None:
    """Refuse a stride whose first or last batch the judge would refuse, or that may not be synced as a whole.

    Errors: _Unusable.
    """
    chain = state.chain()
    try:
        for position, header in ends:
            if state.evidence.is_unsynced(header):
                raise _Unusable
            chain.check(state.segment, position, header)
            # The tasks check what lies between the two.
            chain.offset = ends[-1][1].base_offset
    except CorruptionError as error:
        raise _Unusable from error


def _open_index(fs: Fs, segment: Path) -> File:
    try:
        return fs.open(segment.with_suffix(OFFSET_INDEX))
    except StorageError as error:
        raise _Unusable from error


class _Entries:
    """The entries of an offset index file: an offset, and the position of the batch that holds it."""

    def __init__(self, file: File, base_offset: Offset) -> None:
        self._file = file
        self._base_offset = base_offset
        self._count = file.size() // OFFSET_ENTRY.size

    def __getitem__(self, at: int) -> tuple[Offset, int]:
        """Entry ``at``; for preallocated zeros after the last entry, a position beyond the segment."""
        data = self._file.pread(OFFSET_ENTRY.size, at * OFFSET_ENTRY.size)
        if len(data) < OFFSET_ENTRY.size or (at > 0 and not any(data)):
            return self._base_offset, NOWHERE
        delta, position = OFFSET_ENTRY.unpack(data)
        return Offset(self._base_offset + delta), position

    def count_before(self, position: int) -> int:
        """The number of entries that point below this position."""
        return bisect_left(range(self._count), position, key=lambda at: self[at][1])

    def cut_after(self, position: int, size_bytes: int) -> int:
        """The entry at which a stride of at most this many bytes ends, or of one larger batch. Errors: _Unusable."""
        at = self.count_before(position + size_bytes + 1) - 1
        if at < 0 or self[at][1] <= position:
            at += 1
        if self[at][1] == NOWHERE:
            raise _Unusable
        return at


class _Look:
    """Reads headers of a segment that its index leads to."""

    def __init__(self, segment: Path, file: File, entries: _Entries) -> None:
        self._segment = segment
        self._file = file
        self.entries = entries

    def header(self, position: int) -> BatchHeader:
        """The batch that starts there. Errors: _Unusable if none does."""
        try:
            return read_header(self._file.pread(HEADER_SIZE_BYTES, position))
        except ProtocolError as error:
            raise _Unusable from error

    def header_of(self, at: int) -> BatchHeader:
        """The batch that an entry points at. Errors: _Unusable if it does not hold the entry's offset."""
        offset, position = self.entries[at]
        header = self.header(position)
        if not header.base_offset <= offset < header.end_offset:
            raise _Unusable
        return header

    def last_before(self, at: int | None, end: int, least: int) -> tuple[int, BatchHeader]:
        """Position and header of the batch that ends where the entry ``at`` points, or where the segment ends.

        A batch starts at ``least``. Errors: _Unusable.
        """
        before = (self.entries.count_before(end) if at is None else at) - 1
        begin = least
        if before >= 0 and self.entries[before][1] > least:
            self.header_of(before)
            begin = self.entries[before][1]
        try:
            found = deque(scan_headers(self._segment, self._file, begin, end), maxlen=1)
        except CorruptionError as error:
            raise _Unusable from error
        if not found:
            raise _Unusable
        return found[0]
