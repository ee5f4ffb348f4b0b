"""Reads a running node's log again, piece by piece, to find what the disk lost since it was written.

Invariant: a pass checks every batch that was in the log when it began, at least once: header, CRC, and also offset
and epoch, which no CRC covers but memory knows. It reports damage only if the log was not truncated during the read;
after a truncation it starts the segment again. Pages that are still in the page cache are read from there, so for them
a scrub says nothing about the disk.

Source: ZFS' scrub, TigerBeetle's grid scrubber; rules of ours.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from pykraft.errors import CorruptionError
from pykraft.log.scan import CHUNK_SIZE_BYTES, scan_file
from pykraft.log.segment import SegmentView
from pykraft.types import Damage, Offset

_START: Final = Offset(-1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrubbed:
    """Result of one step. ``is_whole_pass``: the pass is complete, and the next one begins at the log start."""

    size_bytes: int
    damage: Damage | None = None
    is_whole_pass: bool = False


class ScrubbableLog(Protocol):
    """The part of `pykraft.log.log.Log` that any thread may use."""

    @property
    def generation(self) -> int:
        """Counts truncations."""

    def views(self) -> Sequence[SegmentView]:
        """All segments as readers see them now, ascending."""


class Scrub:
    """Repeated passes over one log. Any thread may call it, one at a time, while the writer works."""

    def __init__(self, log: ScrubbableLog) -> None:
        self._log = log
        self._generation = -1
        self._base_offset = _START
        self._position = 0
        self._next_offset = _START
        self._pass_end_offset = _START

    def step(self, size_bytes_max: int, end_offset: Offset) -> Scrubbed:
        """Check about ``size_bytes_max`` bytes of batches, at least one batch, none at or above ``end_offset``.

        Errors: StorageError when the disk cannot be read.
        """
        # A pass ends where the log ended when it began; otherwise it would never end on a log that keeps growing.
        if self._next_offset == _START:
            self._pass_end_offset = end_offset
        end_offset = min(end_offset, self._pass_end_offset)
        generation, view = self._log.generation, self._view(end_offset)
        if view is None:
            self._base_offset = self._next_offset = _START
            return Scrubbed(size_bytes=0, is_whole_pass=True)
        if view.base_offset != self._base_offset or generation != self._generation:
            self._generation, self._base_offset = generation, view.base_offset
            # A new segment, or a truncation came in between: start at the beginning of the segment.
            self._position, self._next_offset = 0, view.base_offset
        start = self._position
        try:
            self._walk(view, size_bytes_max, end_offset)
        except CorruptionError as problem:
            # The log was truncated during the read, so these bytes may not be damage: start the segment again.
            if generation != self._log.generation:
                return Scrubbed(size_bytes=0)
            return Scrubbed(size_bytes=self._position - start, damage=_damage(problem, self._next_offset))
        return Scrubbed(size_bytes=self._position - start)

    def _view(self, end_offset: Offset) -> SegmentView | None:
        """The segment to check next; None at the end of the log."""
        for view in self._log.views():
            if max(view.base_offset, self._next_offset) < min(view.end_offset, end_offset):
                return view
        return None

    def _walk(self, view: SegmentView, size_bytes_max: int, end_offset: Offset) -> None:
        """Check batches from the position on. Errors: CorruptionError, with the position at the bad batch."""
        until = self._position + size_bytes_max
        chunk_size_bytes = min(size_bytes_max, CHUNK_SIZE_BYTES)
        batches = scan_file(view.path, view.file, self._position, view.size_bytes, chunk_size_bytes=chunk_size_bytes)
        for position, header in batches:
            view.check_follows(position, header, self._next_offset)
            self._position, self._next_offset = position + header.size_bytes, header.end_offset
            if self._position >= until or self._next_offset >= end_offset:
                return


def find_damage(log: ScrubbableLog, offset: Offset) -> Damage | None:
    """The first damaged batch of the segment that contains this offset, after reading all of it; None if it is sound.

    Errors: StorageError when the disk cannot be read.
    """
    generation = log.generation
    for view in log.views():
        if not view.base_offset <= offset < view.end_offset:
            continue
        next_offset = view.base_offset
        try:
            for position, header in scan_file(view.path, view.file, 0, view.size_bytes):
                view.check_follows(position, header, next_offset)
                next_offset = header.end_offset
        except CorruptionError as problem:
            return _damage(problem, next_offset) if generation == log.generation else None
    return None


def _damage(problem: CorruptionError, offset: Offset) -> Damage:
    return Damage(
        path=problem.path,
        position=problem.position,
        start_offset=offset,
        expected=problem.expected,
        found=problem.found,
    )
