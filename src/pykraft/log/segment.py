"""One segment of a log: ``<base>.log``, its two indexes, how much of them is durable, and how readers see it.

Invariant: the first ``size_bytes`` of the log file are whole batches from ``base_offset`` to ``end_offset`` without a
gap, and an index entry is written only after its batch. Appends and truncations are durable after `Segment.sync`. The
index files are open only while the segment takes appends; those of a sealed segment are complete, trimmed and synced.
`pykraft.log.log` decides when to roll and syncs the directory.

Readers have a `SegmentView` with a fixed end, while the file may grow beyond it. It returns nothing at or above its
end, and only what it has checked: CRC, epochs, and offsets without a gap from the batch that contains the requested
one. It is immutable, so any thread may read while the writer works. After a truncation an old view may find bytes that
are no longer its own and report corruption; `pykraft.log.log.Log` tells that from real corruption by its generation.

A search by time asks the views where it has to look. Their answers are bounds: the time indexes are sparse and count
every batch, so what they leave out is too old, and what they do not leave out may be.

Source: Kafka's ``LogSegment``.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.config import LogSettings
from pykraft.core.epochs import epoch_at
from pykraft.errors import CorruptionError, ProtocolError, ReadError
from pykraft.log.fs import File, Fs
from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexFile, Lookup, SegmentIndex, Times
from pykraft.log.open_files import OpenFiles, SegmentFile
from pykraft.log.paths import DELETED, LOG, OFFSET_INDEX, SEGMENT_SUFFIXES, TIME_INDEX, segment_file
from pykraft.log.scan import REPAIR, epoch_in_words, scan_headers
from pykraft.protocol.batch import BatchHeader, BatchRun, runs_of
from pykraft.types import Buffer, EpochStart, Offset
from pykraft.value import value


@value(frozen=True, slots=True, kw_only=True)
class SegmentView:
    """One segment up to ``size_bytes`` and ``end_offset`` (exclusive)."""

    path: Path
    file: File
    lookup: Lookup
    times: Times
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
            for run in runs_of(data):
                for position, header in () if self._is_next(run, expected_offset) else run.headers():
                    self.check_follows(start + position, header, expected_offset)
                    end, expected_offset = position + header.size_bytes, header.end_offset
                end, expected_offset = run.end, run.end_offset
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

    def _is_next(self, run: BatchRun, expected_offset: Offset) -> bool:
        """Whether all batches of a run follow, by its ends alone: offsets and epochs of a log ascend."""
        ends = (run.base_offset, Offset(run.end_offset - 1))
        return run.base_offset == expected_offset and {epoch_at(self.epochs, end) for end in ends} == {run.epoch}

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


def first_that_may_have(views: Sequence[SegmentView], timestamp: int) -> Offset:
    """All batches before this offset are older than the timestamp (wall ms)."""
    for view in views:
        delta = view.times.first_that_may_have(timestamp)
        if delta is not None:
            return Offset(view.base_offset + delta)
    return views[-1].end_offset if views else Offset(0)


def piece_before(views: Sequence[SegmentView], end: Offset, size_bytes: int) -> tuple[Offset, int]:
    """An offset about so many bytes before ``end``, in the same segment, and a time: no batch before it is newer."""
    at = bisect_left(views, end, key=lambda view: view.base_offset) - 1
    if at < 0:
        return Offset(0), 0
    view = views[at]
    end_position = view.size_bytes
    if end < view.end_offset:
        end_position, _ = view.lookup.entry_before(end - 1 - view.base_offset)
    entry = bisect_right(view.lookup.positions, end_position - size_bytes) - 1
    delta = view.lookup.last_deltas[entry] if entry >= 0 else 0
    times = [each.times.largest for each in views[:at]]
    # All of this segment is looked at when the piece begins at its start.
    if entry >= 0:
        times.append(view.times.newest_before(delta))
    return Offset(view.base_offset + delta), max(times, default=0)


REWRITTEN_SIZE_BYTES: Final = 1024 * 1024
"""Most bytes that `Segment.rewrite` holds in memory at a time."""
RESERVED_FROM_SIZE_BYTES: Final = 1024 * 1024
"""Disk space is reserved for segments of at least this size."""
RESERVED_SIZE_BYTES: Final = 16 * 1024 * 1024
"""Disk space that is reserved ahead of the appends; again when half of it is used."""


class SegmentContent:
    """What a segment contains, without its files: recovery fills it by a scan, `Segment` by appends."""

    def __init__(self, base_offset: Offset, config: LogSettings) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size_bytes = 0
        self.first_timestamp: int | None = None
        """Largest timestamp of the first batch (wall ms), None when empty; `segment_ms` counts from it."""
        self.index = SegmentIndex(base_offset, config.index_interval_bytes)
        self._offsets_max = config.index_size_bytes_max // OFFSET_ENTRY.size
        self._times_max = config.index_size_bytes_max // TIME_ENTRY.size

    @property
    def is_index_full(self) -> bool:
        """True when the segment takes no further batch; one time entry stays free for `Segment.seal`, as in Kafka."""
        return self.index.offsets_count >= self._offsets_max or self.index.times_count >= self._times_max - 1

    def add(self, header: BatchHeader) -> None:
        """Add the next batch, which begins at ``size_bytes``."""
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        self.index.observe(header, self.size_bytes)
        self.size_bytes += header.size_bytes
        self.end_offset = header.end_offset

    def add_run(self, run: BatchRun) -> None:
        """Add the next batches; the first of them begins at ``size_bytes``."""
        if self.first_timestamp is None:
            self.first_timestamp = run.max_timestamps[0]
        self.index.observe_run(run)
        self.size_bytes = run.end
        self.end_offset = run.end_offset


class Segment:
    """The files of one segment. One writer, one thread; readers use `view`."""

    def __init__(self, fs: Fs, files: OpenFiles, directory: Path, content: SegmentContent, config: LogSettings) -> None:
        """Create the log file if it is absent; ``content`` describes what it holds, and nothing is written yet.

        After recovery, `resume` or `seal` must follow to renew the index files.
        """
        self.content = content
        self.path = directory / segment_file(content.base_offset, LOG)
        self._fs = fs
        self._config = config
        self._file = SegmentFile(files, self.path)
        if not fs.exists(self.path):
            files.create(self.path)
        self._index_files: tuple[IndexFile, IndexFile] | None = None
        self._staged: list[Buffer] = []
        self._staged_bytes = 0
        self._reserved_end = 0
        self._is_dirty = True

    @property
    def base_offset(self) -> Offset:
        """Offset of the first batch, once there is one."""
        return self.content.base_offset

    @property
    def end_offset(self) -> Offset:
        """Offset after the last batch."""
        return self.content.end_offset

    def view(self, epochs: Sequence[EpochStart]) -> SegmentView:
        """What readers may see now, in a log with these epochs; call it only when nothing is staged."""
        content = self.content
        return SegmentView(
            path=self.path,
            file=self._file,
            lookup=content.index.lookup,
            times=content.index.times,
            base_offset=content.base_offset,
            end_offset=content.end_offset,
            size_bytes=content.size_bytes,
            epochs=epochs,
        )

    def begin(self) -> tuple[IndexFile, IndexFile]:
        """Open the index files, preallocated, with the entries known so far, so that the segment takes appends."""
        assert self._index_files is None
        entry_of = ((OFFSET_INDEX, OFFSET_ENTRY), (TIME_INDEX, TIME_ENTRY))
        offsets, times = (
            IndexFile(
                self._fs.open(self.path.with_suffix(suffix), create=True), entry, self._config.index_size_bytes_max
            )
            for suffix, entry in entry_of
        )
        self._index_files = offsets, times
        for file in self._index_files:
            file.cut_to(0, preallocate=True)
        self._write_index()
        return self._index_files

    def stage(self, header: BatchHeader, data: Buffer) -> None:
        """Add a whole batch that follows ``end_offset``; `write` puts it into the file."""
        self.content.add(header)
        self._staged.append(data)
        self._staged_bytes += header.size_bytes

    def write(self) -> None:
        """Write the staged batches with one call, then their index entries; durable after `sync`.

        Errors: StorageError; the file may then end within a batch, which recovery cuts off.
        """
        if self._staged:
            # Set before the write: a write that fails halfway has changed the file, too.
            self._is_dirty = True
            self._file.pwrite(self._staged, self.content.size_bytes - self._staged_bytes)
            self._staged, self._staged_bytes = [], 0
            self._write_index()

    def reserve(self) -> None:
        """Reserve disk space for the next appends, whose writes and syncs then change less metadata.

        The size of the file stays, so nobody reads zeros after the last batch.
        """
        size_bytes = self.content.size_bytes
        most = self._config.segment_size_bytes
        if size_bytes >= RESERVED_FROM_SIZE_BYTES and self._reserved_end < min(
            size_bytes + RESERVED_SIZE_BYTES // 2, most
        ):
            # Only what is not reserved yet: a file system in memory looks at each page of the range.
            start, self._reserved_end = max(size_bytes, self._reserved_end), min(size_bytes + RESERVED_SIZE_BYTES, most)
            self._file.reserve(start, self._reserved_end - start)

    def uncache(self, position: int, size_bytes: int) -> None:
        """The system need not keep these durable bytes in memory."""
        self._file.uncache(position, size_bytes)

    def resume(self) -> None:
        """Take appends again after recovery, with the time index entry that Kafka adds at that point."""
        self.content.index.finish()
        self.content.index.reopen()
        self.begin()

    def cut_tail(self) -> int:
        """Cut the file after its content; returns how many bytes that removed. Durable after `sync`."""
        tail_bytes = self._file.size() - self.content.size_bytes
        if tail_bytes > 0:
            self._is_dirty = True
            self._file.truncate(self.content.size_bytes)
        return max(tail_bytes, 0)

    def rewrite(self, position: int) -> None:
        """Write the bytes from ``position`` on once more, unchanged; durable after `sync`.

        The bytes may be in the page cache only, in pages that the kernel treats as clean because a sync of them failed.
        Another sync would write nothing and report success. Source: Rebello et al., USENIX ATC 2020.
        """
        for start in range(position, self.content.size_bytes, REWRITTEN_SIZE_BYTES):
            size_bytes = min(REWRITTEN_SIZE_BYTES, self.content.size_bytes - start)
            self._is_dirty = True
            # The write makes the pages dirty again, so the next sync really writes them.
            self._file.pwrite([self._file.pread(size_bytes, start)], start)

    def truncate_to(self, position: int, end_offset: Offset) -> None:
        """Cut at a batch boundary (see `SegmentView.find_end`) and take appends again; durable after `sync`."""
        content = self.content
        self._is_dirty = True
        self._file.truncate(position)
        self._reserved_end = 0
        content.size_bytes, content.end_offset = position, end_offset
        if position == 0:
            content.first_timestamp = None
        kept_position = content.index.truncate_to(end_offset)
        # The largest timestamp may come after the last kept time entry: read the headers after it again.
        for _, kept in scan_headers(self.path, self._file, kept_position, position):
            content.index.observe_time(kept)
        offsets, times = self._index_files or self.begin()
        offsets.cut_to(content.index.offsets_count, preallocate=True)
        times.cut_to(content.index.times_count, preallocate=True)

    def seal(self) -> None:
        """End the segment: add the last index entry, then trim, sync and close the index files.

        This does not sync the log file; `truncate_to` opens the segment again.
        """
        self.content.index.finish()
        files = self._index_files or self.begin()
        self._write_index()
        for file in files:
            file.cut_to(file.count, preallocate=False)
            file.sync()
            file.close()
        self._index_files = None
        if self._reserved_end:
            self._file.unreserve()
            self._reserved_end = 0
        self._release()

    def sync(self) -> None:
        """Make the log file durable if it changed. Never repeat it after it failed."""
        if self._is_dirty:
            self._file.sync()
            self._is_dirty = False
        self._release()

    def close(self) -> None:
        """Close the files without syncing; readers must have stopped."""
        self._close_index()
        self._file.close()

    def remove(self) -> None:
        """Remove the files, the log first; durable after a sync of the directory.

        Readers may still hold a view: they find no file, and the log's generation tells them why.
        """
        self._close_index()
        for suffix in SEGMENT_SUFFIXES:
            self._fs.remove(self.path.with_suffix(suffix))
        self._file.removed()

    def retire(self) -> None:
        """Rename the files to ``.deleted``, the log first, so that they no longer count; the bulk lane removes them.

        Durable after a sync of the directory. Readers may still hold a view, as after `remove`.
        """
        self._close_index()
        for suffix in SEGMENT_SUFFIXES:
            path = self.path.with_suffix(suffix)
            # A rename is quick; freeing gigabytes here would stall the ordered lane.
            self._fs.rename(path, path.with_name(path.name + DELETED))
        self._file.removed()

    def _release(self) -> None:
        """Let the file be closed once the segment is sealed and durable."""
        if self._index_files is None and not self._is_dirty:
            self._file.release()

    def _close_index(self) -> None:
        for file in self._index_files or ():
            file.close()
        self._index_files = None

    def _write_index(self) -> None:
        offsets, times = self._index_files or self.begin()
        index = self.content.index
        # Most batches have no entry of their own.
        if index.offsets_count > offsets.count:
            offsets.write(index.offset_bytes(offsets.count))
        if index.times_count > times.count:
            times.write(index.time_bytes(times.count))
