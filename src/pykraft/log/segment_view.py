"""A segment as readers see it: a fixed end, while the file may grow beyond it.

This module reads. Invariant: it returns nothing at or above ``end_offset``, and everything it returns is checked: CRC,
epochs, and offsets without a gap from the batch that contains the requested one. A view is immutable, so any thread may
read through it while the writer works. After a truncation an old view may find bytes that are no longer its own and
report corruption; `pykraft.log.log.Log` tells that from real corruption by its generation.

Source: Kafka's ``LogSegment.read``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pykraft.core.epochs import epoch_at
from pykraft.errors import CorruptionError, ProtocolError, ReadError
from pykraft.log.fs import File
from pykraft.log.index import Lookup
from pykraft.log.scan import REPAIR, epoch_in_words, scan_headers
from pykraft.protocol.batch import BatchHeader, scan
from pykraft.types import Buffer, EpochStart, Offset
from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class SegmentView:
    """One segment up to ``size_bytes`` and ``end_offset`` (exclusive)."""

    path: Path
    file: File
    lookup: Lookup
    base_offset: Offset
    end_offset: Offset
    size_bytes: int
    epochs: Sequence[EpochStart]
    """The start of each epoch of the log, ascending."""

    def find(self, offset: Offset) -> tuple[int, BatchHeader]:
        """Position and header of the batch that contains an offset of this segment. Errors: CorruptionError."""
        start, last_delta = self.lookup.entry_before(offset - self.base_offset)
        expected_offset = self.base_offset if last_delta is None else None
        for position, header in scan_headers(self.path, self.file, start, self.size_bytes):
            if expected_offset is None:
                assert last_delta is not None
                expected_offset = Offset(self.base_offset + last_delta - (header.last_offset - header.base_offset))
            # No CRC covers a base offset. If one on the way has changed, that batch could pass for the one we look for.
            if header.base_offset != expected_offset:
                raise self._corruption(position, f"offset {expected_offset}", f"offset {header.base_offset}")
            if header.end_offset > offset:
                return position, header
            expected_offset = header.end_offset
        raise self._corruption(self.size_bytes, f"offset {offset}", "the end of the segment")

    def find_end(self, offset: Offset) -> tuple[int, Offset]:
        """Where to cut a segment so that nothing at or above ``offset`` stays: position and end offset.

        The end offset is ``offset``, or less when a batch begins before it and ends after it.

        Errors: CorruptionError.
        """
        if offset <= self.base_offset:
            return 0, self.base_offset
        if offset >= self.end_offset:
            return self.size_bytes, self.end_offset
        # Look for the batch before: the one at ``offset`` may be the damage because of which the log is cut here.
        position, header = self.find(Offset(offset - 1))
        return (position, header.base_offset) if header.end_offset > offset else (position + header.size_bytes, offset)

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        """Whole sound batches from the one that contains ``offset``: at least one, else at most ``size_bytes_max``.

        Errors: CorruptionError when the batch that contains ``offset`` is damaged.
        """
        start, first = self.find(offset)
        size_bytes = min(max(size_bytes_max, first.size_bytes), self.size_bytes - start)
        try:
            data = self.file.pread(size_bytes, start)
        except ReadError:
            if size_bytes == first.size_bytes:
                raise
            # The lost bytes may be after the first batch: serve that one alone, as with other damage after it.
            data = self.file.pread(first.size_bytes, start)
        end, expected_offset = 0, first.base_offset
        try:
            for position, header in scan(data):
                self.check_follows(start + position, header, expected_offset)
                end, expected_offset = position + header.size_bytes, header.end_offset
        except CorruptionError:
            # The first batch itself is damaged; damage after it only ends the result early.
            if end == 0:
                raise
        except ProtocolError as error:
            if end == 0:
                raise self._corruption(start, "a sound batch", str(error)) from error
        if end == 0:
            raise self._corruption(start, f"a batch of {first.size_bytes} bytes", f"{len(data)} bytes")
        return data if end == len(data) else memoryview(data)[:end]

    def check_follows(self, position: int, header: BatchHeader, expected_offset: Offset) -> None:
        """Refuse a batch that is sound in itself but whose offset or epoch differs from what was written here.

        No CRC covers either of them. Errors: CorruptionError.
        """
        if header.base_offset != expected_offset:
            raise self._corruption(position, f"offset {expected_offset}", f"offset {header.base_offset}")
        epoch = epoch_at(self.epochs, header.base_offset)
        if header.epoch != epoch:
            raise self._corruption(position, epoch_in_words(epoch), epoch_in_words(header.epoch))

    def _corruption(self, position: int, expected: str, found: str) -> CorruptionError:
        return CorruptionError(self.path, position=position, expected=expected, found=found, repair=REPAIR)
