"""One segment, or a part of one, during a check: what has been seen, compared with the indexes.

Invariant: every entry of an index about the batches between ``start`` and ``end`` is compared with them, however many
parts the segment is checked in.

Source: Kafka's ``LogSegment``, ``OffsetIndex``, ``TimeIndex``.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path
from typing import Final

from pykraft.log.fs import File
from pykraft.log.offline.verify_index import NO_TIMESTAMP, OffsetIndexCheck, TimeIndexCheck
from pykraft.protocol.batch import BatchHeader
from pykraft.protocol.batch_run import BatchRun
from pykraft.types import Offset

NO_OFFSET: Final = -1


class SegmentCheck:
    """A segment: its file up to ``end``, and the indexes that exist."""

    def __init__(self, path: Path, file: File, end: int) -> None:
        self.path = path
        self.file = file
        self.end = end
        self.index: OffsetIndexCheck | None = None
        self.times: TimeIndexCheck | None = None
        self.start = 0
        self.seen_until = 0
        """Where the last sound batch ended."""
        self.max_timestamp = NO_TIMESTAMP
        """The largest so far, entries of the time index about earlier parts included."""
        self.first_time_entry: tuple[int, int] | None = None

    def begin_at(self, start: int, offset: Offset) -> None:
        """Begin with the batch at this position, which has this offset."""
        self.start = self.seen_until = start
        if self.index is not None:
            self.index.skip_to(start)
        if self.times is not None:
            self.max_timestamp = self.times.begin_at(offset)
            if self.times.ahead is not None:
                self.first_time_entry = self.times.at, self.times.ahead[0]

    def end_part(self) -> None:
        """Check that no entry about this part is left: a time entry has been compared with the last batch already."""
        if self.index is not None:
            self.index.saw(self.end - 1, NO_OFFSET)

    def saw(self, position: int, header: BatchHeader) -> None:
        """Check the index entries about a batch that is in the right place."""
        self.max_timestamp = max(self.max_timestamp, header.max_timestamp)
        if self.index is not None and position >= self.index.next:
            self.index.saw(position, header.last_offset)
        if self.times is not None and header.last_offset >= self.times.next:
            self.times.saw(header.last_offset, header.max_timestamp, self.max_timestamp)
        self.seen_until = position + header.size_bytes

    def saw_run(self, run: BatchRun) -> None:
        """Check the index entries about these batches, which are all in the right place."""
        positions, last_offsets, timestamps = run.positions, run.last_offsets, run.max_timestamps
        index, times, done = self.index, self.times, 0
        while index is not None and index.next <= positions[-2]:
            at = bisect_left(positions, index.next)
            index.saw(positions[at], last_offsets[at])
        while times is not None and times.next <= last_offsets[-1]:
            at = bisect_left(last_offsets, times.next)
            self.max_timestamp = max(self.max_timestamp, *timestamps[done : at + 1])
            done = at + 1
            times.saw(last_offsets[at], timestamps[at], self.max_timestamp)
        self.max_timestamp = max([self.max_timestamp, *timestamps[done:]])
        self.seen_until = run.end
