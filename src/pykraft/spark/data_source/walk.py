"""Finds positions in one replica's log and walks over its batches, even while its node keeps writing.

A `Cursor` is a position between two batches. It remembers the batch before it, so that a walk that continues later,
perhaps in another process, notices a log that was truncated below it and rewritten.

Invariant: a walk yields what `pykraft.spark.data_source.segment_walk` finds in one segment after the other, and ends
where the log does. An offset above the recovery point is searched from that point on, since the log may end before
the next segment.

Source: KIP-595 (log layout); Kafka's ``OffsetIndex``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from pykraft.errors import CorruptionError, ProtocolError, StorageError, UsageError
from pykraft.log.evidence import ALL_SYNCED, read_evidence
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.judge import Evidence, end_of_cleaning, refuse_impossible
from pykraft.log.paths import DELETED, LOG, OFFSET_INDEX, parse_segment_file
from pykraft.log.scan import scan_headers
from pykraft.log.tail import Expected
from pykraft.object_storage.files import Files
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, read_header
from pykraft.spark.data_source.segment_walk import BatchSpan, WalkState, base_offset_of, walk_segment
from pykraft.types import EPOCH_ZERO, Epoch, Offset

OFFSET_MAX = Offset(2**63 - 1)
INDEX_SIZE_BYTES_MAX = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A position between two batches: ``offset`` comes next; the batch before had ``epoch`` and ``crc``, if known.

    ``segment`` and ``position`` are those of the next batch, if known; ``before_segment`` and ``before_position`` those
    of the batch before it.
    """

    offset: Offset
    epoch: Epoch = EPOCH_ZERO
    crc: int | None = None
    segment: Path | None = None
    position: int = 0
    before_segment: Path | None = None
    before_position: int = 0


class ReplicaLog:
    """The log of one replica: all segments of a directory, or only the named ones."""

    def __init__(
        self, name: str, directory: Path, named: Sequence[Path] | None = None, fs: Files | None = None
    ) -> None:
        self.name = name
        self.fs = fs or Files()
        self.directory = directory
        self._named = frozenset(named) if named is not None else None

    def segments(self) -> list[Path]:
        """The segments that are there now, oldest first. Errors: StorageError when the directory cannot be read."""
        found = self._everything()
        return found if self._named is None else [segment for segment in found if segment in self._named]

    def _everything(self) -> list[Path]:
        """All segments that count, oldest first. Errors: StorageError."""
        found = segments_of(self.fs, self.directory)
        names = self.fs.listdir(self.directory)
        if len(found) > 1 and any(name.endswith(LOG + DELETED) for name in names):
            found = _after_cleaning(self.fs, names, found)
        return found

    def size_bytes(self) -> int:
        """The size of its segments now. Errors: StorageError, also if one vanished."""
        return sum(map(self.fs.size_bytes, self.segments()))

    def start(self) -> Cursor:
        """The current first batch. Errors: StorageError if there is no segment."""
        segments = self.segments()
        if not segments:
            raise StorageError(self.directory, "no longer has any segments")
        return Cursor(offset=base_offset_of(segments[0]), segment=segments[0])

    def seek(self, offset: Offset) -> Cursor:
        """The batch that holds an offset, or the log end if that comes first.

        Errors: UsageError for an offset below the log start; CorruptionError and StorageError as `walk`.
        """
        start = self.start()
        if offset < start.offset:
            begin = f"the log begins at {start.offset}"
            raise UsageError(f"{self.directory}: offset {offset} is no longer there, {begin}")
        cursor = self._near(offset)
        for one in self.walk(cursor):
            if one.end_offset > offset:
                return replace(cursor, offset=one.offset, segment=one.segment, position=one.position)
            cursor = after(one, cursor)
        return cursor

    def resume(self, cursor: Cursor) -> Cursor:
        """The same position with segment and byte offset, if the batch before it is still the same.

        If the cursor is complete this reads one header, so it is cheap enough for each micro-batch.

        Errors: UsageError if the batch has changed, or if the log starts after the cursor.
        """
        if self._is_there(cursor):
            return cursor
        start = self.start()
        if cursor.offset == start.offset:
            return start
        if cursor.offset < start.offset or cursor.crc is None:
            return self.seek(cursor.offset)
        before = self.seek(Offset(cursor.offset - 1))
        for one in self.walk(before):
            known = (one.header.epoch, one.header.crc) if one.header is not None else None
            if one.end_offset == cursor.offset and known == (cursor.epoch, cursor.crc):
                return after(one, before)
            break
        raise self.cut_back(cursor.offset)

    def cut_back(self, offset: Offset) -> UsageError:
        """The error for a log that no longer holds what was read of it up to this offset."""
        return UsageError(
            f"{self.directory}: the log was cut back below offset {offset}, up to which it was read. A "
            "replica may lose what it has not committed. Read a live quorum with the option bootstrap.controllers, or "
            "start over with another checkpoint"
        )

    def walk(self, cursor: Cursor, *, tolerant: bool = False) -> Iterator[BatchSpan]:
        """Everything from the cursor to the current log end.

        ``tolerant``: damage is a `BatchSpan` up to the next segment instead of an error.

        Errors: CorruptionError for damage; StorageError if a file cannot be read, also if it vanished.
        """
        for state in self.from_cursor(cursor):
            yield from walk_segment(state, tolerant=tolerant)

    def from_cursor(self, cursor: Cursor) -> Iterator[WalkState]:
        """The state of a walk in each segment from a cursor on; the caller walks it to the segment's end.

        Errors: StorageError for a segment that is gone.
        """
        everything = self._everything()
        walked = [at for at, segment in enumerate(everything) if self._named is None or segment in self._named]
        begin = 0
        if cursor.segment is not None:
            found = [index for index, at in enumerate(walked) if everything[at] == cursor.segment]
            if not found:
                gone = StorageError(cursor.segment, "is gone: the node deleted it", repair="read from the log start")
                raise gone from FileNotFoundError(cursor.segment)
            begin = found[0]
        evidence = self.evidence()
        position, expected = cursor.position, Expected(base_offset=cursor.offset, epoch=cursor.epoch)
        for index, at in enumerate(walked[begin:], start=begin):
            if index > begin:
                epoch = expected.epoch if walked[index - 1] == at - 1 else EPOCH_ZERO
                position, expected = 0, Expected(base_offset=base_offset_of(everything[at]), epoch=epoch)
            state = WalkState(
                fs=self.fs,
                segment=everything[at],
                later=everything[at + 1 :],
                position=position,
                expected=expected,
                evidence=evidence,
            )
            yield state
            if state.is_over:
                return
            expected, evidence = state.expected, state.evidence

    def evidence(self) -> Evidence:
        """What the other files of the directory say about the log now. Errors: StorageError."""
        return read_evidence(self.fs, self.directory)

    def refuse_impossible(self) -> None:
        """Refuse a directory that cannot hold a whole log: no node would start with it.

        If the user named single segments, other segments may be missing. Errors: StorageError.
        """
        if self._named is None:
            names = self.fs.listdir(self.directory)
            base_offsets = [base_offset_of(one) for one in self.segments()]
            repair = f"read what is left with startingOffsets={min(base_offsets, default=0)}, or by naming segments"
            refuse_impossible(self.directory, names, base_offsets, repair=repair)

    def end(self) -> Offset:
        """The current log end. Only the part after the newest segment's last index entry is walked.

        Errors: StorageError.
        """
        self.start()
        end = self._near(OFFSET_MAX)
        offset = end.offset
        for one in self.walk(end, tolerant=True):
            offset = one.end_offset
        return offset

    def _is_there(self, cursor: Cursor) -> bool:
        """Whether a cursor that knows its segment can be used unchanged; False says nothing about the log."""
        if cursor.segment is None or not self.fs.exists(cursor.segment):
            return False
        if cursor.crc is None:
            return True
        header = _header_at(self.fs, cursor.before_segment, cursor.before_position)
        known = (cursor.offset, cursor.epoch, cursor.crc)
        return header is not None and (header.end_offset, header.epoch, header.crc) == known

    def _near(self, offset: Offset) -> Cursor:
        """A batch not far before an offset, as segment names and offset index tell; the segment's first without one."""
        segments = self.segments()
        point = self.evidence().recovery_point
        if point is not None:
            # The log may end before the segment that should hold the offset: nothing from here on must be synced.
            offset = max(min(offset, point), base_offset_of(segments[0]))
        segment = [one for one in segments if base_offset_of(one) <= offset][-1]
        base_offset = base_offset_of(segment)
        with closing(self.fs.open(segment)) as file:
            for entry_offset, position in _index_entries_before(self.fs, segment, offset):
                try:
                    _, header = next(scan_headers(segment, file, position, file.size()))
                except (CorruptionError, StopIteration):
                    break
                if header.base_offset <= entry_offset < header.end_offset and header.base_offset <= offset:
                    return Cursor(offset=header.base_offset, segment=segment, position=position)
        return Cursor(offset=base_offset, segment=segment)


def segments_of(fs: Files, path: Path) -> list[Path]:
    """Segment files, oldest first: those of a directory, or the named one. Errors: StorageError."""
    candidates = [path / name for name in fs.listdir(path)] if fs.is_folder(path) else [path]
    return [file for file in candidates if (parsed := parse_segment_file(file.name)) and parsed[1] == LOG]


def after(one: BatchSpan, before: Cursor) -> Cursor:
    """The cursor after a span that follows this one."""
    header = one.header
    return Cursor(
        offset=one.end_offset,
        epoch=header.epoch if header else before.epoch,
        crc=header.crc if header else None,
        segment=one.segment,
        position=one.end_position,
        before_segment=one.segment,
        before_position=one.last_position,
    )


def _header_at(fs: Files, segment: Path | None, position: int) -> BatchHeader | None:
    """The header of a batch that starts there; None if none does, or if the file is gone."""
    if segment is None:
        return None
    try:
        file = fs.open(segment)
    except StorageError:
        return None
    try:
        return read_header(file.pread(HEADER_SIZE_BYTES, position))
    except (ProtocolError, StorageError):
        return None
    finally:
        file.close()


def _index_entries_before(fs: Files, segment: Path, offset: Offset) -> Iterator[tuple[Offset, int]]:
    """The offset index's last entry at or before an offset; nothing if there is none, or no readable index."""
    path = segment.with_suffix(OFFSET_INDEX)
    base_offset = base_offset_of(segment)
    try:
        with closing(fs.open(path)) as file:
            size_bytes = file.size()
            content = file.pread(size_bytes, 0) if size_bytes <= INDEX_SIZE_BYTES_MAX else b""
    except StorageError:
        return
    whole = len(content) - len(content) % OFFSET_ENTRY.size
    best: tuple[Offset, int] | None = None
    for delta, position in OFFSET_ENTRY.iter_unpack(content[:whole]):
        if (delta, position) == (0, 0) and best is not None:
            break  # preallocated
        if base_offset + delta > offset:
            break
        best = Offset(base_offset + delta), position
    if best is not None:
        yield best


def _after_cleaning(fs: Files, names: Sequence[str], segments: list[Path]) -> list[Path]:
    """Without the segments before a gap that a power loss left in a cleaning; snapshots hold their records."""
    for at in range(len(segments) - 1, 0, -1):
        gap = (_end_of(fs, segments[at - 1]), base_offset_of(segments[at]))
        if end_of_cleaning(names, [gap]):
            return segments[at:]
    return segments


def _end_of(fs: Files, segment: Path) -> Offset:
    """Where the sound part of a segment ends. Errors: StorageError."""
    base_offset = base_offset_of(segment)
    expected = Expected(base_offset=base_offset, epoch=EPOCH_ZERO)
    state = WalkState(fs=fs, segment=segment, later=(), position=0, expected=expected, evidence=ALL_SYNCED)
    with suppress(CorruptionError):
        for _ in walk_segment(state, tolerant=False):
            pass
    return state.expected.base_offset
