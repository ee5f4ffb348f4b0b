"""Finds positions in one replica's log and walks over its batches, even while its node keeps writing.

A `Cursor` is a position between two batches. It remembers the batch before it, so that a walk that continues later
notices a log that was truncated below it and rewritten. An offset above the recovery point is searched from that point
on, since the log may end before the next segment. A walk over every header takes hours for a log of 10 TiB, so
`stride_over` only reads the headers between two entries of the offset index, once per stride;
`pykraft.spark.data_source.splits` checks what lies between when it reads it.

Invariant: strides follow each other without a gap of offsets, and each starts and ends between two batches. The index
is not trusted: if an entry does not point at the batch that holds its offset, right after the end of another batch,
every header of the rest of the segment is read. This also finds the end of the newest segment, which may be torn.

Source: KIP-595 (log layout); Kafka's ``OffsetIndex`` and ``LogSegment.translateOffset``.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Final, overload

from pykraft.errors import CorruptionError, ProtocolError, StorageError, TruncatedLogError, UsageError
from pykraft.log.directory import meta_in
from pykraft.log.evidence import ALL_SYNCED, read_evidence
from pykraft.log.fs import File, Fs
from pykraft.log.index import OFFSET_ENTRY
from pykraft.log.judge import Evidence, end_of_cleaning, refuse_impossible
from pykraft.log.paths import DELETED, LOG, OFFSET_INDEX, segment_file
from pykraft.log.scan import scan_headers
from pykraft.log.small_files.meta import MetaProperties
from pykraft.log.tail import Expected
from pykraft.object_storage.files import Files
from pykraft.protocol.batch import HEADER_SIZE_BYTES, BatchHeader, read_header
from pykraft.protocol.compression import Compression
from pykraft.spark.data_source.segment_walk import BatchSpan, WalkState, base_offset_of, segment_offset, walk_segment
from pykraft.types import EPOCH_ZERO, Epoch, Offset, uuid_text

OFFSET_MAX = Offset(2**63 - 1)


SPLIT_SIZE_BYTES = 128 * 1024 * 1024
"""About how much of a segment one task reads, as Spark's own sources of files do; each task costs 40 ms of processor
time before its first row."""
STRIDE_SIZE_BYTES: Final = 16 * 1024 * 1024
COMPRESSED_WEIGHT: Final = 2
"""Of a byte of compressed batches: they have at least twice as many records."""
NOWHERE: Final = 2**63


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


class Segments(Sequence[Path]):
    """The segments of a folder, oldest first: names, of which paths are made only when they are needed."""

    def __init__(self, folder: Path, names: Sequence[str], begin: int = 0) -> None:
        self._folder = folder
        self._names = names
        self._begin = begin

    def __len__(self) -> int:
        return len(self._names) - self._begin

    @overload
    def __getitem__(self, at: int) -> Path: ...

    @overload
    def __getitem__(self, at: slice) -> "Segments": ...

    def __getitem__(self, at: int | slice) -> "Path | Segments":
        """One of them, or those from an index on."""
        if isinstance(at, slice):
            assert (at.stop, at.step) == (None, None), "up to the newest one"
            return Segments(self._folder, self._names, self._begin + at.start)
        return self._folder / self._names[at + self._begin if at >= 0 else at]

    def holding(self, offset: Offset) -> int:
        """The index of the segment that may hold an offset: the last one that does not begin after it."""
        return bisect_right(self._names, segment_file(offset, LOG), lo=self._begin) - 1 - self._begin

    @property
    def base_offsets(self) -> list[Offset]:
        return [base_offset_of(Path(name)) for name in self._names[self._begin :]]


class ReplicaLog:
    """The log of one replica: all segments of a directory, or only the named ones."""

    def __init__(
        self, name: str, directory: Path, named: Sequence[Path] | None = None, fs: Files | None = None
    ) -> None:
        self.name = name
        self.fs = fs or Files()
        self.directory = directory
        self.is_copy = False
        """True if other replicas have the same directory id."""
        self._named = frozenset(named) if named is not None else None

    @cached_property
    def meta(self) -> MetaProperties | None:
        """The properties of the directory that the partition lies in; None if they are not there or unreadable."""
        try:
            return meta_in(self.fs, self.directory.parent)
        except StorageError:
            return None

    @property
    def id(self) -> str | None:
        """Directory id and partition, which stay when the directory is moved; None without an id of its own."""
        if self.is_copy or self.meta is None or self.meta.directory_id is None:
            return None
        return f"{uuid_text(self.meta.directory_id)}/{self.directory.name}"

    @property
    def path(self) -> str:
        """The whole path, or the URI."""
        return str(self.directory.absolute())

    def segments(self) -> Segments:
        """The segments that are there now, oldest first. Errors: StorageError when the directory cannot be read."""
        found = self._everything()
        if self._named is None:
            return found
        return Segments(self.directory, [segment.name for segment in found if segment in self._named])

    def _everything(self) -> Segments:
        """All segments that count, oldest first. Errors: StorageError."""
        names = self.fs.listdir(self.directory)
        found = Segments(self.directory, [name for name in names if segment_offset(name) is not None])
        if len(found) > 1 and any(name.endswith(LOG + DELETED) for name in names):
            found = _after_cleaning(self.fs, names, found)
        return found

    def size_bytes(self) -> int:
        """The size of its segments now. Errors: StorageError, also if one vanished."""
        return sum(map(self.fs.size_bytes, self.segments()))

    def start(self) -> Cursor:
        """A cursor at the first batch. Errors: StorageError if there is no segment."""
        segments = self.segments()
        if not segments:
            raise StorageError(self.directory, "no longer has any segments")
        return Cursor(offset=base_offset_of(segments[0]), segment=segments[0])

    def seek(self, offset: Offset) -> Cursor:
        """A cursor at the batch that holds an offset, or the log end if that comes first.

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

        Errors: TruncatedLogError if the batch has changed; UsageError if the log starts after the cursor.
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

    def cut_back(self, offset: Offset) -> TruncatedLogError:
        """The error for a log that no longer holds what was read of it up to this offset."""
        return TruncatedLogError(
            f"{self.directory}: the log was cut back below offset {offset}, up to which it was read. A "
            "replica may lose what it has not committed. Read a live quorum with the option bootstrap.controllers, go "
            "on before the cut with onTruncation = repair, or start over with another checkpoint"
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
        walked: Sequence[int] = range(len(everything))
        if self._named is not None:
            walked = [at for at, segment in enumerate(everything) if segment in self._named]
        begin = 0
        if cursor.segment is not None:
            at = everything.holding(base_offset_of(cursor.segment))
            if at not in walked or everything[at] != cursor.segment:
                gone = StorageError(cursor.segment, "is gone: the node deleted it", repair="read from the log start")
                raise gone from FileNotFoundError(cursor.segment)
            begin = walked.index(at)
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
            base_offsets = self.segments().base_offsets
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
        if cursor.before_segment is None:
            return False
        try:
            with closing(self.fs.open(cursor.before_segment)) as file:
                header = _Indexed(cursor.before_segment, file).header(cursor.before_position)
        except (_UnusableError, StorageError):
            return False
        return (header.end_offset, header.epoch, header.crc) == (cursor.offset, cursor.epoch, cursor.crc)

    def _near(self, offset: Offset) -> Cursor:
        """A batch not far before an offset, by segment names and offset index; the segment's first without an index."""
        segments = self.segments()
        point = self.evidence().recovery_point
        if point is not None:
            # The log may end before the segment that should hold the offset: nothing from the point on need be synced.
            offset = max(min(offset, point), base_offset_of(segments[0]))
        segment = segments[segments.holding(offset)]
        with (
            closing(self.fs.open(segment)) as file,
            suppress(_UnusableError),
            closing(_open_index(self.fs, segment)) as index,
        ):
            look = _Indexed(segment, file, index)
            at = look.count_until(offset) - 1
            if at >= 0 and (header := look.header_of(at)).base_offset <= offset:
                return Cursor(offset=header.base_offset, segment=segment, position=look.entry(at)[1])
        return Cursor(offset=base_offset_of(segment), segment=segment)


def segments_of(fs: Files, path: Path) -> Sequence[Path]:
    """Segment files, oldest first: those of a directory, or the named one. Errors: StorageError."""
    if fs.is_folder(path):
        return Segments(path, [name for name in fs.listdir(path) if segment_offset(name) is not None])
    return [path] if segment_offset(path.name) is not None else []


def after(one: BatchSpan, before: Cursor) -> Cursor:
    """The cursor at the end of a span whose walk was at ``before``."""
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


def _after_cleaning(fs: Files, names: Sequence[str], segments: Segments) -> Segments:
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


class _UnusableError(Exception):
    """An index, or the batch that it points at, is invalid."""


def stride_over(replica: ReplicaLog, cursor: Cursor, *, size_bytes: int = STRIDE_SIZE_BYTES) -> Iterator[BatchSpan]:
    """Everything from the cursor to the current log end, in spans of about this many bytes.

    Errors: as `ReplicaLog.walk`, except for damage within a stride, which its reader finds.
    """
    for state in replica.from_cursor(cursor):
        with suppress(_UnusableError):
            yield from _strides(state, size_bytes)
        yield from walk_segment(state, tolerant=False)


def _strides(state: WalkState, size_bytes: int) -> Iterator[BatchSpan]:
    """The rest of a segment or, of the newest, whose end offset is not known yet, what its index leads to.

    Errors: _UnusableError; StorageError.
    """
    segment = state.segment
    end_offset = base_offset_of(state.later[0]) if state.later else None
    if end_offset is None:
        # The walk reads every header of what is left of the newest segment after the last stride.
        size_bytes = min(size_bytes, STRIDE_SIZE_BYTES)
    with closing(_open_index(state.fs, segment)) as index, closing(state.fs.open(segment)) as file:
        look = _Indexed(segment, file, index)
        segment_end = file.size()
        first = look.header(state.position) if state.position < segment_end else None
        weight = 1
        while first is not None:
            position = state.position
            room = max(min(size_bytes, STRIDE_SIZE_BYTES), size_bytes // weight)
            at = None if segment_end - position <= room else look.cut_after(position, room)
            if at is None and end_offset is None:
                return
            cut = segment_end if at is None else look.entry(at)[1]
            last_position, last = look.last_before(at, cut, position)
            # Else one core reads a small log, and all others wait. The tasks of a large one are many enough.
            if size_bytes <= SPLIT_SIZE_BYTES and weight_of(last) > weight:
                weight = weight_of(last)
                continue
            behind = Expected(base_offset=last.end_offset, epoch=last.epoch)
            following = None if at is None else look.header_of(at)
            goes_on = last.end_offset == end_offset if following is None else behind.is_met_by(following)
            if not goes_on or last.base_offset < first.base_offset:
                raise _UnusableError
            _check(state, ((position, first), (last_position, last)))
            yield state.pass_batches((position, first), (last_position, last))
            first = following


def weight_of(header: BatchHeader | None) -> int:
    """How many times as long a task takes for a byte of such batches, about, as for one that is not compressed."""
    return COMPRESSED_WEIGHT if header is not None and header.compression is not Compression.NONE else 1


def _check(state: WalkState, ends: Sequence[tuple[int, BatchHeader]]) -> None:
    """Refuse a stride whose first or last batch the judge would refuse, or part of which may not be synced.

    Errors: _UnusableError.
    """
    chain = state.chain()
    try:
        for position, header in ends:
            if state.evidence.is_unsynced(header):
                raise _UnusableError
            chain.check(state.segment, position, header)
            # The tasks check what lies between the two.
            chain.offset = ends[-1][1].base_offset
    except CorruptionError as error:
        raise _UnusableError from error


def _open_index(fs: Fs, segment: Path) -> File:
    try:
        return fs.open(segment.with_suffix(OFFSET_INDEX))
    except StorageError as error:
        raise _UnusableError from error


class _Indexed:
    """Reads headers of a segment, and the entries of its offset index, which lead to them.

    An entry is an offset, and the position of the batch that holds it.
    """

    def __init__(self, segment: Path, file: File, index: File | None = None) -> None:
        self._segment = segment
        self._base_offset = base_offset_of(segment)
        self._file = file
        self._index = index
        self._count = 0 if index is None else index.size() // OFFSET_ENTRY.size

    def entry(self, at: int) -> tuple[Offset, int]:
        """Entry ``at``; for preallocated zeros after the last entry, what lies beyond the segment."""
        assert self._index is not None
        data = self._index.pread(OFFSET_ENTRY.size, at * OFFSET_ENTRY.size)
        if len(data) < OFFSET_ENTRY.size or (at > 0 and not any(data)):
            return OFFSET_MAX, NOWHERE
        delta, position = OFFSET_ENTRY.unpack(data)
        return Offset(self._base_offset + delta), position

    def count_before(self, position: int) -> int:
        """The number of entries that point below this position."""
        return bisect_left(range(self._count), position, key=lambda at: self.entry(at)[1])

    def count_until(self, offset: Offset) -> int:
        return bisect_right(range(self._count), offset, key=lambda at: self.entry(at)[0])

    def cut_after(self, position: int, size_bytes: int) -> int:
        """The entry at which a stride of at most this many bytes ends, or of one larger batch.

        Errors: _UnusableError.
        """
        at = self.count_before(position + size_bytes + 1) - 1
        if at < 0 or self.entry(at)[1] <= position:
            at += 1
        if self.entry(at)[1] == NOWHERE:
            raise _UnusableError
        return at

    def header(self, position: int) -> BatchHeader:
        """The batch that starts there. Errors: _UnusableError if none does."""
        try:
            return read_header(self._file.pread(HEADER_SIZE_BYTES, position))
        except ProtocolError as error:
            raise _UnusableError from error

    def header_of(self, at: int) -> BatchHeader:
        """The batch that an entry points at. Errors: _UnusableError if it does not hold the entry's offset."""
        offset, position = self.entry(at)
        header = self.header(position)
        if not header.base_offset <= offset < header.end_offset:
            raise _UnusableError
        return header

    def last_before(self, at: int | None, end: int, least: int) -> tuple[int, BatchHeader]:
        """Position and header of the batch that ends where the entry ``at`` points, or where the segment ends.

        A batch starts at ``least``. Errors: _UnusableError.
        """
        before = (self.count_before(end) if at is None else at) - 1
        begin = least
        if before >= 0 and self.entry(before)[1] > least:
            self.header_of(before)
            begin = self.entry(before)[1]
        try:
            found = deque(scan_headers(self._segment, self._file, begin, end), maxlen=1)
        except CorruptionError as error:
            raise _UnusableError from error
        if not found:
            raise _UnusableError
        return found[0]
