"""A segment as readers see it: fixed ends over a file that may grow behind them.

Owns reading. Invariant: nothing at or above ``end_offset`` is returned, and what is returned was checked: CRC,
and offsets without a gap from the batch that holds the asked one. A view is immutable, so any thread may read
through it while the writer goes on; after a truncation an old view may find bytes that are no longer its own and
then reports corruption, which `pykraft.log.log.Log` tells from the real one by its generation.

It refuses to know writers and other segments. Source: Kafka's ``LogSegment.read``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.log.fs import File
from pykraft.log.index import Lookup
from pykraft.log.scan import REPAIR, scan_headers
from pykraft.protocol.batch import BatchHeader, scan
from pykraft.types import Buffer, Offset


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentView:
    """One segment up to ``size_bytes`` and ``end_offset`` (exclusive)."""

    path: Path
    file: File
    lookup: Lookup
    base_offset: Offset
    end_offset: Offset
    size_bytes: int

    def find(self, offset: Offset) -> tuple[int, BatchHeader]:
        """Position and header of the batch that holds an offset of this segment. Errors: CorruptionError."""
        start = self.lookup.position_before(offset - self.base_offset)
        for position, header in scan_headers(self.path, self.file, start, self.size_bytes):
            if header.end_offset > offset:
                if header.base_offset > offset:
                    raise self._corruption(position, f"offset {offset}", f"offset {header.base_offset}")
                return position, header
        raise self._corruption(self.size_bytes, f"offset {offset}", "the end of the segment")

    def find_end(self, offset: Offset) -> tuple[int, Offset]:
        """Where a segment must be cut so that nothing at or above ``offset`` stays: position and end offset.

        The end offset is ``offset``, or less when a batch begins before it and ends after it.
        """
        if offset <= self.base_offset:
            return 0, self.base_offset
        if offset >= self.end_offset:
            return self.size_bytes, self.end_offset
        position, header = self.find(offset)
        return position, header.base_offset

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        """Whole batches from the one that holds ``offset``, at least one, in at most ``size_bytes_max`` otherwise.

        Errors: CorruptionError; nothing of a range with a bad batch is returned.
        """
        start, first = self.find(offset)
        size_bytes = min(max(size_bytes_max, first.size_bytes), self.size_bytes - start)
        data = self.file.pread(size_bytes, start)
        end, expected_offset = 0, first.base_offset
        try:
            for position, header in scan(data):
                if header.base_offset != expected_offset:
                    raise self._corruption(
                        start + position, f"offset {expected_offset}", f"offset {header.base_offset}"
                    )
                end, expected_offset = position + header.size_bytes, header.end_offset
        except ProtocolError as error:
            raise self._corruption(start + end, "a sound batch", str(error)) from error
        if end == 0:
            raise self._corruption(start, f"a batch of {first.size_bytes} bytes", f"{len(data)} bytes")
        return data if end == len(data) else memoryview(data)[:end]

    def _corruption(self, position: int, expected: str, found: str) -> CorruptionError:
        return CorruptionError(self.path, position=position, expected=expected, found=found, repair=REPAIR)
