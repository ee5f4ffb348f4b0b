"""The newest batches of the log in memory: readable before they are on disk, and without a file read.

Invariant: the batches are contiguous up to the log end, so every offset from `RecentBatches.start_offset` on is here. A
batch that is not durable yet is never evicted, whatever the size. So a reader finds each offset here or in the files,
and never needs a file for bytes that are still being written.

Source: Kafka's leader serves fetches up to its log end; etcd ``raft/log_unstable.go``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Final, TypeAlias

from pykraft.protocol.batch import BatchHeader
from pykraft.types import Buffer, Offset

RECENT_SIZE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Above this many bytes, durable batches are evicted, oldest first."""
_SPENT_MIN: Final = 256
"""The lists are compacted only after this many evictions at the front."""

HeaderAndBytes: TypeAlias = tuple[BatchHeader, Buffer]
"""One whole batch with a valid CRC: its header and its bytes."""


class RecentBatches:
    """A window of the log that ends at the log end."""

    def __init__(self, *, end_offset: Offset, size_bytes_max: int = RECENT_SIZE_BYTES_MAX) -> None:
        self.end_offset = end_offset
        """The log end (exclusive)."""
        self._size_bytes_max = size_bytes_max
        self.size_bytes = 0
        """Bytes of all batches in memory."""
        self._batches: list[HeaderAndBytes] = []
        self._base_offsets: list[Offset] = []
        self._first = 0

    @property
    def start_offset(self) -> Offset:
        """Offset of the first batch in memory; the log end when there is none."""
        return self._base_offsets[self._first] if self._first < len(self._base_offsets) else self.end_offset

    def append(self, batches: Sequence[HeaderAndBytes]) -> None:
        for batch in batches:
            header, data = batch
            assert header.base_offset == self.end_offset, "batches follow each other"
            self._batches.append(batch)
            self._base_offsets.append(header.base_offset)
            self.size_bytes += len(data)
            self.end_offset = header.end_offset

    def truncate_to(self, end_offset: Offset) -> None:
        """The log was truncated: drop every batch that reaches beyond its new end."""
        at = bisect_left(self._base_offsets, end_offset, self._first)
        if at > self._first and self._batches[at - 1][0].end_offset > end_offset:
            at -= 1
        self.size_bytes -= sum(len(data) for _, data in self._batches[at:])
        del self._batches[at:]
        del self._base_offsets[at:]
        self.end_offset = end_offset

    def begin_anew_at(self, offset: Offset) -> None:
        """The log continues, empty, at this offset: drop everything."""
        self._batches.clear()
        self._base_offsets.clear()
        self._first = self.size_bytes = 0
        self.end_offset = offset

    def evict(self, flushed_end_offset: Offset) -> None:
        """Evict the oldest durable batches while there are too many bytes."""
        while self.size_bytes > self._size_bytes_max:
            header, data = self._batches[self._first]
            # Not durable yet, so readers find it only here.
            if header.end_offset > flushed_end_offset:
                break
            self._batches[self._first] = (header, b"")
            self._first += 1
            self.size_bytes -= len(data)
        # Compact rarely: deleting at the front of a list moves the rest of it.
        if self._first >= _SPENT_MIN and self._first * 2 > len(self._batches):
            del self._batches[: self._first]
            del self._base_offsets[: self._first]
            self._first = 0

    def take(self, offset: Offset, end_offset: Offset, size_bytes_max: int) -> list[HeaderAndBytes]:
        """Whole batches from the one that contains ``offset`` on, none that reaches beyond ``end_offset``.

        At least one, however large, if there is any; more while all fit into ``size_bytes_max``.
        """
        assert self.start_offset <= offset
        if offset >= self.end_offset:
            return []
        taken: list[HeaderAndBytes] = []
        size_bytes = 0
        for at in range(bisect_right(self._base_offsets, offset, self._first) - 1, len(self._batches)):
            header, data = self._batches[at]
            size_bytes += len(data)
            if header.end_offset > end_offset or (taken and size_bytes > size_bytes_max):
                break
            taken.append((header, data))
        return taken
