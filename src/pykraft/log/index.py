"""The two sparse indexes of a segment, in the format that Kafka's tools read.

``<base>.index``: entries of 8 bytes, int32 offset - base and int32 position. ``<base>.timeindex``: entries of 12 bytes,
int64 timestamp (wall ms) and int32 offset - base. Big-endian, ascending. The index files of the active segment are
preallocated, so zeros follow the last entry until the segment is closed.

When an entry is added:

- Once more than ``index_interval_bytes`` of log followed the last entry (or the start), the next batch gets an offset
  entry (its last offset, its position). The time index then gets (largest timestamp so far, last offset of the batch
  that had it), if that timestamp is above the last entry's.
- A closed segment's time index ends with its largest timestamp.

Invariant: entries in memory come from batches that this process appended or verified. The files are caches for other
programs. A node never reads them back as truth and does not sync them before the segment is closed; recovery derives
again what a crash loses. Memory: 20 bytes for each index interval of log.

Source: Kafka's ``LogSegment.append``, ``OffsetIndex``, ``TimeIndex``; KIP-33.
"""

from __future__ import annotations

import struct
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pykraft.log.fs import File
from pykraft.protocol.batch import BatchHeader, BatchRun
from pykraft.types import Offset

OFFSET_ENTRY: Final = struct.Struct(">ii")
TIME_ENTRY: Final = struct.Struct(">qi")
_NO_TIMESTAMP: Final = -1
CHUNK_ENTRIES: Final = 8_192
"""Entries of one read of a file."""


@dataclass(frozen=True, slots=True)
class Lookup:
    """Offset entries that a reader may search while the writer appends to them."""

    last_deltas: array[int]
    positions: array[int]

    def entry_before(self, delta: int) -> tuple[int, int | None]:
        """A batch at or before the one that contains the offset ``base + delta``: its position, and its last delta.

        The last delta is None for the first batch of the segment, which has no entry.
        """
        at = bisect_right(self.last_deltas, delta)
        return (self.positions[at - 1], self.last_deltas[at - 1]) if at else (0, None)


class Times:
    """Time entries, and the largest time so far; a reader may search them while the writer appends to them."""

    __slots__ = ("_deltas", "_stamps", "largest", "largest_delta")

    def __init__(self, stamps: array[int], deltas: array[int]) -> None:
        self._stamps = stamps
        self._deltas = deltas
        self.largest, self.largest_delta = (stamps[-1], deltas[-1]) if stamps else (_NO_TIMESTAMP, 0)

    def __len__(self) -> int:
        return min(len(self._stamps), len(self._deltas))

    def observe(self, timestamp: int, delta: int) -> None:
        """Remember the time of this batch if it is the largest so far; ``delta`` is its last."""
        if timestamp > self.largest:
            self.largest, self.largest_delta = timestamp, delta

    def finish(self) -> None:
        """Add an entry for the largest time so far."""
        if self.largest > (self._stamps[-1] if self._stamps else _NO_TIMESTAMP):
            self._stamps.append(self.largest)
            self._deltas.append(self.largest_delta)

    def before(self, delta: int) -> Times:
        """The entries below this delta."""
        kept = bisect_left(self._deltas, delta)
        return Times(self._stamps[:kept], self._deltas[:kept])

    def content(self, first: int) -> bytes:
        """File content from entry number ``first`` on."""
        return b"".join(TIME_ENTRY.pack(self._stamps[at], self._deltas[at]) for at in range(first, len(self)))

    def first_that_may_have(self, timestamp: int) -> int | None:
        """All batches of smaller deltas are older than this; None when all batches of the segment are."""
        if self.largest < timestamp:
            return None
        at = bisect_left(self._stamps, timestamp, hi=len(self))
        return self._deltas[at - 1] + 1 if at else 0

    def newest_before(self, delta: int) -> int:
        """No batch below this delta is newer than the time returned."""
        count = len(self)
        at = bisect_left(self._deltas, delta, hi=count)
        # The next entry counts all batches before its own.
        return self._stamps[at] if at < count else self.largest


class SegmentIndex:
    """The entries of one segment, in memory. One writer; other threads may search `lookup`."""

    def __init__(self, base_offset: Offset, interval_bytes: int) -> None:
        self._base_offset = base_offset
        self._interval_bytes = interval_bytes
        self.lookup = Lookup(array("i"), array("i"))
        self.times = Times(array("q"), array("i"))
        self._bytes_since_entry = 0

    @property
    def offsets_count(self) -> int:
        return len(self.lookup.positions)

    @property
    def times_count(self) -> int:
        return len(self.times)

    def observe(self, header: BatchHeader, position: int) -> None:
        """Count a batch at this position, appended now or found by recovery, and add its entry if one is due."""
        self.observe_time(header)
        # Kafka adds the entry for the batch after the interval, not for the one that fills it.
        if self._bytes_since_entry > self._interval_bytes:
            self.lookup.positions.append(position)
            self.lookup.last_deltas.append(header.last_offset - self._base_offset)
            self.finish()
            self._bytes_since_entry = 0
        self._bytes_since_entry += header.size_bytes

    def observe_run(self, run: BatchRun) -> None:
        """Count these batches, as `observe` does for each."""
        positions, at, count = run.positions, 0, len(run)
        while at < count:
            # The first batch with more than the interval between the last entry and itself.
            due = bisect_right(positions, positions[at] + self._interval_bytes - self._bytes_since_entry, at, count)
            self._observe_times(run, at, min(due + 1, count))
            if due == count:
                self._bytes_since_entry += run.end - positions[at]
                return
            self.lookup.positions.append(positions[due])
            self.lookup.last_deltas.append(run.last_offsets[due] - self._base_offset)
            self.finish()
            at = due + 1
            self._bytes_since_entry = positions[at] - positions[due]

    def _observe_times(self, run: BatchRun, begin: int, end: int) -> None:
        largest = max(run.max_timestamps[begin:end])
        if largest > self.times.largest:
            first = run.max_timestamps.index(largest, begin, end)
            self.times.observe(largest, run.last_offsets[first] - self._base_offset)

    def observe_time(self, header: BatchHeader) -> None:
        """Remember the batch's timestamp if it is the largest so far."""
        self.times.observe(header.max_timestamp, header.last_offset - self._base_offset)

    def finish(self) -> None:
        """Add a time entry for the largest timestamp so far; also the last entry of a segment that is closed."""
        self.times.finish()

    def reopen(self) -> None:
        """Restart the byte count for the next entry, as Kafka does for a segment opened at start."""
        self._bytes_since_entry = 0

    def truncate_to(self, end_offset: Offset) -> int:
        """Drop entries at or above the new end; returns the position of the last kept entry, 0 if there is none.

        The caller must pass the batches from that position on to `observe_time` again.
        """
        end_delta = end_offset - self._base_offset
        kept = bisect_left(self.lookup.last_deltas, end_delta)
        # New arrays: readers keep searching the ones they have.
        self.lookup = Lookup(self.lookup.last_deltas[:kept], self.lookup.positions[:kept])
        self.times = self.times.before(end_delta)
        self._bytes_since_entry = 0
        return self.lookup.positions[-1] if kept else 0

    def offset_bytes(self, first: int = 0) -> bytes:
        """File content of the offset index from entry number ``first`` on."""
        deltas, positions = self.lookup.last_deltas, self.lookup.positions
        return b"".join(OFFSET_ENTRY.pack(deltas[at], positions[at]) for at in range(first, len(positions)))

    def time_bytes(self, first: int = 0) -> bytes:
        """File content of the time index from entry number ``first`` on."""
        return self.times.content(first)


class IndexFile:
    """One index file: its number of entries and its size."""

    def __init__(self, file: File, entry: struct.Struct, size_bytes_max: int) -> None:
        self._file = file
        self._entry_size_bytes = entry.size
        self._entries_max = size_bytes_max // entry.size
        self.count = 0

    def write(self, entries: bytes) -> None:
        """Write entries after those in the file."""
        if entries:
            self._file.pwrite([entries], self.count * self._entry_size_bytes)
            self.count += len(entries) // self._entry_size_bytes

    def cut_to(self, count: int, *, preallocate: bool) -> None:
        """Keep the first ``count`` entries; with ``preallocate``, zeros follow them up to the full size."""
        self.count = count
        # Two truncates: the first removes old entries, the second fills up with zeros.
        self._file.truncate(count * self._entry_size_bytes)
        if preallocate:
            self._file.truncate(max(count, self._entries_max) * self._entry_size_bytes)

    def sync(self) -> None:
        """Make the file durable."""
        self._file.sync()

    def close(self) -> None:
        """Close without syncing."""
        self._file.close()


def index_entries(file: File, layout: struct.Struct) -> Iterator[tuple[int, tuple[int, int]]]:
    """Position and content of each whole entry, up to the zeros at the end of a preallocated file."""
    end = file.size()
    whole = end - end % layout.size
    for start in range(0, whole, CHUNK_ENTRIES * layout.size):
        data = file.pread(min(CHUNK_ENTRIES * layout.size, whole - start), start)
        for at, (first, second) in enumerate(layout.iter_unpack(data[: len(data) - len(data) % layout.size])):
            if first == second == 0:
                return
            yield start + at * layout.size, (first, second)
