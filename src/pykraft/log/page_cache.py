"""How much of the log stays in the page cache: its newest bytes.

A node rarely reads what it wrote: followers get the newest batches from `pykraft.host.recent_batches`. Without a hint
the system keeps every page of the log until memory is short, and each append needs memory that was not used before. On
a virtual machine that is several times as slow as memory that was used a moment ago. So the pages of old batches are
given back. A follower that is far behind, and a restart, read them from the disk.

Invariant: only synced bytes are given back.

Source: PostgreSQL's ``XLogFileClose``, which gives the pages of a WAL segment back; ``posix_fadvise(2)``.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from pykraft.log.segment import Segment

CACHED_SIZE_BYTES_MAX: Final = 256 * 1024 * 1024
"""Newest bytes of a log that stay in the page cache."""
STEP_SIZE_BYTES: Final = 8 * 1024 * 1024
"""Bytes that are given back at a time."""
STEPS_MAX: Final = 4
"""Most steps in a turn, since appends may wait meanwhile."""


class PageCache:
    """The segments with pages that may be in the page cache, oldest first."""

    def __init__(self) -> None:
        self._segments: deque[Segment] = deque()
        self._position = 0
        """Everything below it in the first segment was given back."""

    def synced(self, segment: Segment) -> None:
        """Everything in this segment is durable; it is the newest one that was synced."""
        if not self._segments or self._segments[-1] is not segment:
            self._segments.append(segment)

    def forget(self) -> None:
        """Segments were removed or cut: leave what is cached of the log to the system."""
        self._segments.clear()
        self._position = 0

    def relieve(self) -> None:
        """Give old pages back, a bounded number of bytes."""
        size_bytes = sum(segment.content.size_bytes for segment in self._segments) - self._position
        for _ in range(STEPS_MAX):
            if size_bytes < CACHED_SIZE_BYTES_MAX + STEP_SIZE_BYTES:
                return
            oldest = self._segments[0]
            step_bytes = min(STEP_SIZE_BYTES, oldest.content.size_bytes - self._position)
            oldest.uncache(self._position, step_bytes)
            size_bytes -= step_bytes
            self._position += step_bytes
            if self._position == oldest.content.size_bytes and len(self._segments) > 1:
                self._segments.popleft()
                self._position = 0
