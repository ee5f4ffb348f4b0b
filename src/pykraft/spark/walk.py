"""Walks over the batches of one replica's log, from any offset on, also while its node keeps writing.

It reads only headers, but all of them: they say where a batch ends, and that each starts where the one before it ended,
which no CRC covers. (No CRC covers the epoch either; a walk notices only a step back. `pykraft.spark.audit` compares
replicas, which shows more.) After the last whole batch of the newest segment there may be a torn tail, or a batch that
is being written (`pykraft.spark.tail`): the walk ends there. Anything else that is not a batch in its place is damage:
an error, or, if the caller tolerates damage, a stretch of bytes without records.

A `Cursor` is a position between two batches. It remembers the batch before it, so that a later walk, perhaps in another
process, notices if the log was truncated and rewritten below it.

Invariant: the results follow each other without a gap of offsets, and each is either valid or marked as damage.

Source: KIP-595 (log layout); Kafka's ``FileRecords``, ``LogSegment.recover``, ``OffsetIndex``.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from pykraft.errors import CorruptionError, ProtocolError, StorageError, UsageError
from pykraft.log.fs import File
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.os_fs import OsFs
from pykraft.log.paths import LOG, OFFSET_INDEX, parse_segment_file
from pykraft.log.scan import scan_headers
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, check_crc, read_header
from pykraft.spark.tail import SECTOR_SIZE_BYTES, Expected, is_torn, written_end
from pykraft.types import EPOCH_ZERO, Epoch, Offset

OFFSET_MAX = Offset(2**63 - 1)
INDEX_SIZE_BYTES_MAX = 64 * 1024 * 1024
LOOK_INTERVAL_S = 0.01
LOOKS_MAX = 30
"""How often to read a batch that may be in flight; writing the rest of a sector takes microseconds."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Bytes of a segment: one valid batch, several, or, if ``damage`` is set, bytes that should be batches.

    Offsets: ``end_offset`` is exclusive; for damage they are where its first batch should start, and where the batch
    after it starts, which is the same offset if nothing follows. ``header`` is that of the last batch, which starts at
    ``last_position``, and ``first`` that of the first; if these are two batches, the ones between were not read.
    """

    segment: Path
    position: int
    last_position: int
    end_position: int
    offset: Offset
    end_offset: Offset
    first: BatchHeader | None
    header: BatchHeader | None
    damage: str | None = None

    @property
    def is_coarse(self) -> bool:
        """True if it may hold several batches."""
        return self.position != self.last_position


@dataclass(slots=True, kw_only=True)
class WalkState:
    """The position of a walk in a segment, and the batch that must come next."""

    position: int
    expected: Expected

    def pass_over(self, one: Stretch) -> None:
        """Continue after it."""
        self.position = one.end_position
        self.expected = Expected(base_offset=one.end_offset, epoch=one.header.epoch if one.header else EPOCH_ZERO)


class Replica:
    """The log of one replica: all segments of a directory, or only the named ones."""

    def __init__(self, name: str, directory: Path, named: Sequence[Path] | None = None) -> None:
        self.name = name
        self.directory = directory
        self._named = frozenset(named) if named is not None else None

    def segments(self) -> list[Path]:
        """The current segments, oldest first. Errors: StorageError if the directory cannot be read."""
        found = segments_of(self.directory)
        return found if self._named is None else [segment for segment in found if segment in self._named]

    def start(self) -> Cursor:
        """The current first batch. Errors: StorageError if there is no segment."""
        segments = self.segments()
        if not segments:
            raise StorageError(self.directory, "has no segments any more")
        return Cursor(offset=base_offset_of(segments[0]), segment=segments[0])

    def seek(self, offset: Offset) -> Cursor:
        """The batch that holds an offset, or the log end if that comes first.

        Errors: UsageError for an offset below the log start; CorruptionError and StorageError as `walk`.
        """
        start = self.start()
        if offset < start.offset:
            begin = f"the log begins at {start.offset}"
            raise UsageError(f"{self.directory}: offset {offset} is not there any more, {begin}")
        cursor = self._near(offset)
        for one in self.walk(cursor):
            if one.end_offset > offset:
                return replace(cursor, offset=one.offset, segment=one.segment, position=one.position)
            cursor = after(one, cursor)
        return cursor

    def resume(self, cursor: Cursor) -> Cursor:
        """The same position with segment and byte offset, if the batch before it is still the same.

        If the cursor is complete this reads one header, so it is cheap enough for each micro-batch.

        Errors: UsageError if the batch has changed, or if the log starts behind the cursor.
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
            f"{self.directory}: the log was cut back below offset {offset}, up to which it was read: what a "
            "replica has not committed may go. Read a live quorum with the option bootstrap.controllers, or begin anew "
            "with another checkpoint"
        )

    def walk(self, cursor: Cursor, *, tolerant: bool = False) -> Iterator[Stretch]:
        """Everything from the cursor to the current log end.

        ``tolerant``: damage is a `Stretch` up to the next segment instead of an error.

        Errors: CorruptionError for damage; StorageError if a file cannot be read, also if it vanished.
        """
        for segment, next_segment, place in self.from_cursor(cursor):
            for one in walk_segment(segment, place.position, place.expected, next_segment, tolerant=tolerant):
                yield one
                place.pass_over(one)

    def from_cursor(self, cursor: Cursor) -> Iterator[tuple[Path, Path | None, WalkState]]:
        """The segments from a cursor on, each with its successor, if any, and the state of the walk there.

        The caller updates the state. Errors: StorageError for a segment that is gone.
        """
        everything = segments_of(self.directory)
        walked = [at for at, segment in enumerate(everything) if self._named is None or segment in self._named]
        begin = 0
        if cursor.segment is not None:
            found = [index for index, at in enumerate(walked) if everything[at] == cursor.segment]
            if not found:
                gone = StorageError(cursor.segment, "is gone: the node deleted it", repair="read from the log start")
                raise gone from FileNotFoundError(cursor.segment)
            begin = found[0]
        state = WalkState(position=cursor.position, expected=Expected(base_offset=cursor.offset, epoch=cursor.epoch))
        for index, at in enumerate(walked[begin:], start=begin):
            if index > begin:
                epoch = state.expected.epoch if walked[index - 1] == at - 1 else EPOCH_ZERO
                state.position = 0
                state.expected = Expected(base_offset=base_offset_of(everything[at]), epoch=epoch)
            yield everything[at], everything[at + 1] if at + 1 < len(everything) else None, state

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
        if cursor.segment is None or not cursor.segment.exists():
            return False
        if cursor.crc is None:
            return True
        header = _header_at(cursor.before_segment, cursor.before_position)
        known = (cursor.offset, cursor.epoch, cursor.crc)
        return header is not None and (header.end_offset, header.epoch, header.crc) == known

    def _near(self, offset: Offset) -> Cursor:
        """A batch not far before an offset, by segment names and offset index; without an index the segment's first."""
        segment = [one for one in self.segments() if base_offset_of(one) <= offset][-1]
        base_offset = base_offset_of(segment)
        file = OsFs().open(segment)
        try:
            for entry_offset, position in _index_entries_before(segment, offset):
                try:
                    _, header = next(scan_headers(segment, file, position, file.size()))
                except (CorruptionError, StopIteration):
                    break
                if header.base_offset <= entry_offset < header.end_offset and header.base_offset <= offset:
                    return Cursor(offset=header.base_offset, segment=segment, position=position)
        finally:
            file.close()
        return Cursor(offset=base_offset, segment=segment)


def segments_of(path: Path) -> list[Path]:
    """Segment files, oldest first: those of a directory, or the named one. Errors: StorageError."""
    try:
        candidates = sorted(path.iterdir()) if path.is_dir() else [path]
    except OSError as error:
        raise StorageError(path, f"cannot be read: {error.strerror}") from error
    return [file for file in candidates if (parsed := parse_segment_file(file.name)) and parsed[1] == LOG]


def base_offset_of(segment: Path) -> Offset:
    """The offset in the name of a segment."""
    parsed = parse_segment_file(segment.name)
    assert parsed is not None, f"{segment} is not a segment"
    return parsed[0]


def after(one: Stretch, before: Cursor) -> Cursor:
    """The cursor after a stretch that follows this one."""
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


def batches_within(one: Stretch) -> Iterator[Stretch]:
    """The batches of a valid stretch. Errors: CorruptionError, StorageError."""
    assert one.first is not None
    expected = Expected(base_offset=one.offset, epoch=one.first.epoch)
    for batch in walk_segment(one.segment, one.position, expected, one.segment, tolerant=False):
        yield batch
        if batch.end_position >= one.end_position:
            return


def _header_at(segment: Path | None, position: int) -> BatchHeader | None:
    """The header of a batch that starts there; None if none does, or if the file is gone."""
    if segment is None:
        return None
    try:
        file = OsFs().open(segment)
    except StorageError:
        return None
    try:
        return read_header(file.pread(HEADER_SIZE_BYTES, position))
    except (ProtocolError, StorageError):
        return None
    finally:
        file.close()


def _index_entries_before(segment: Path, offset: Offset) -> Iterator[tuple[Offset, int]]:
    """The offset index's last entry at or before an offset; nothing if there is none, or no readable index."""
    path = segment.with_suffix(OFFSET_INDEX)
    base_offset = base_offset_of(segment)
    try:
        content = path.read_bytes() if path.stat().st_size <= INDEX_SIZE_BYTES_MAX else b""
    except OSError:
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


def walk_segment(
    segment: Path, position: int, expected: Expected, next_segment: Path | None, *, tolerant: bool
) -> Iterator[Stretch]:
    """The rest of one segment; ``next_segment`` is None for the newest, which may end in a torn tail.

    Errors: CorruptionError, unless ``tolerant``; StorageError.
    """
    end_offset = base_offset_of(next_segment) if next_segment is not None else None
    file = OsFs().open(segment)
    try:
        size_bytes = file.size()
        written = written_end(file) if next_segment is None else size_bytes
        reached = position
        try:
            for at, header in scan_headers(segment, file, position, size_bytes):
                _check(segment, header, at, expected)
                if at + header.size_bytes > written - SECTOR_SIZE_BYTES and written < size_bytes:
                    _check_written(segment, file, at, header, written)
                yield Stretch(
                    segment=segment,
                    position=at,
                    last_position=at,
                    end_position=at + header.size_bytes,
                    offset=header.base_offset,
                    end_offset=header.end_offset,
                    first=header,
                    header=header,
                )
                reached = at + header.size_bytes
                expected = Expected(base_offset=header.end_offset, epoch=header.epoch)
            _check_end(segment, reached, expected, end_offset)
        except CorruptionError as error:
            if next_segment is None and is_torn(file, reached, written, expected):
                return
            if not tolerant:
                raise
            yield Stretch(
                segment=segment,
                position=reached,
                last_position=reached,
                end_position=size_bytes,
                offset=expected.base_offset,
                end_offset=expected.base_offset if end_offset is None else max(expected.base_offset, end_offset),
                first=None,
                header=None,
                damage=str(error),
            )
    finally:
        file.close()


def _check_end(segment: Path, position: int, expected: Expected, end_offset: Offset | None) -> None:
    """Reject a segment that does not end where the next one starts."""
    if end_offset is not None and expected.base_offset != end_offset:
        found = f"the end of the segment, and the next begins at {end_offset}"
        raise CorruptionError(segment, position=position, expected=f"offset {expected.base_offset}", found=found)


def _check(segment: Path, header: BatchHeader, position: int, expected: Expected) -> None:
    """Reject a batch that cannot come next."""
    if not expected.is_met_by(header):
        wanted = f"offset {expected.base_offset} of epoch {expected.epoch} or later"
        found = f"offset {header.base_offset} of epoch {header.epoch}"
        raise CorruptionError(segment, position=position, expected=wanted, found=found)


def _check_written(segment: Path, file: File, position: int, header: BatchHeader, written: int) -> None:
    """Reject the last batch before preallocated space if some of its bytes were never written.

    Within its last sector they may be in flight: a running node writes them in the next moment.
    """
    looks = 1 if position + header.size_bytes > written else LOOKS_MAX
    for left in reversed(range(looks)):
        try:
            check_crc(file.pread(header.size_bytes, position), 0, header)
        except ProtocolError as error:
            if left == 0:
                found = str(error)
                raise CorruptionError(segment, position=position, expected="a whole batch", found=found) from error
            _let_it_write()
        else:
            return


def _let_it_write() -> None:
    time.sleep(LOOK_INTERVAL_S)
