"""One segment of a log: ``<base>.log``, its two indexes, and how much of them is durable.

Owns the three files. Invariant: the first ``size_bytes`` of the log file are whole batches from ``base_offset``
to ``end_offset`` without a gap; an index entry is written only after its batch. What was appended or truncated
is durable after `sync`. The index files are open only while the segment is: a sealed one has them whole, trimmed
and synced. It refuses to know other segments, when to roll, and the directory's durability.

Source: Kafka's ``LogSegment``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pykraft.log.config import LogConfig
from pykraft.log.fs import Fs
from pykraft.log.index import OFFSET_ENTRY, TIME_ENTRY, IndexFile, SegmentIndex
from pykraft.log.open_files import OpenFiles, SegmentFile
from pykraft.log.paths import DELETED, LOG, OFFSET_INDEX, SEGMENT_SUFFIXES, TIME_INDEX, segment_file
from pykraft.log.scan import scan_headers
from pykraft.log.segment_view import SegmentView
from pykraft.protocol.batch import BatchHeader
from pykraft.types import Buffer, EpochStart, Offset

REWRITTEN_SIZE_BYTES: Final = 1024 * 1024
"""What `Segment.rewrite` holds in memory at one time."""


class SegmentContent:
    """What is in a segment, without its files: recovery fills it by a scan, `Segment` by appends."""

    def __init__(self, base_offset: Offset, config: LogConfig) -> None:
        self.base_offset = base_offset
        self.end_offset = base_offset
        self.size_bytes = 0
        self.first_timestamp: int | None = None
        """Largest timestamp of the first batch (wall ms), None when empty; the age of a segment counts from it."""
        self.index = SegmentIndex(base_offset, config.index_interval_bytes)
        self._index_size_bytes_max = config.index_size_bytes_max

    @property
    def is_index_full(self) -> bool:
        """True when no further batch may follow; one time entry is kept free for `Segment.seal`, as in Kafka."""
        offsets_max = self._index_size_bytes_max // OFFSET_ENTRY.size
        times_max = self._index_size_bytes_max // TIME_ENTRY.size
        return self.index.offsets_count >= offsets_max or self.index.times_count >= times_max - 1

    def add(self, header: BatchHeader) -> None:
        """The next batch, at ``size_bytes``."""
        if self.first_timestamp is None:
            self.first_timestamp = header.max_timestamp
        self.index.observe(header, self.size_bytes)
        self.size_bytes += header.size_bytes
        self.end_offset = header.end_offset


class Segment:
    """The files of one segment. One writer, one thread; readers use `view`."""

    def __init__(self, fs: Fs, files: OpenFiles, directory: Path, content: SegmentContent, config: LogConfig) -> None:
        """Create the log file if it is absent; its content is known already, and nothing is written yet.

        Of a segment found by recovery, `resume` or `seal` must follow: it renews the index files.
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
        """What readers may see now, in a log with these epochs; nothing is staged."""
        content = self.content
        return SegmentView(
            path=self.path,
            file=self._file,
            lookup=content.index.lookup,
            base_offset=content.base_offset,
            end_offset=content.end_offset,
            size_bytes=content.size_bytes,
            epochs=epochs,
        )

    def begin(self) -> tuple[IndexFile, IndexFile]:
        """Open the index files, preallocated, with the entries known so far: the segment takes appends."""
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
        """Count a whole batch that follows ``end_offset`` in; it reaches the file with `write`."""
        self.content.add(header)
        self._staged.append(data)
        self._staged_bytes += header.size_bytes

    def write(self) -> None:
        """Write what was staged with one call, then its index entries; durable after `sync`.

        Errors: StorageError; the file may then end in a part of a batch, which recovery cuts off.
        """
        if self._staged:
            self._is_dirty = True
            self._file.pwrite(self._staged, self.content.size_bytes - self._staged_bytes)
            self._staged, self._staged_bytes = [], 0
            self._write_index()

    def resume(self) -> None:
        """Take appends again after recovery, with the time entry that Kafka makes then."""
        self.content.index.finish()
        self.content.index.reopen()
        self.begin()

    def cut_tail(self) -> int:
        """Cut what follows the content off the file; returns how many bytes that was. Durable after `sync`."""
        tail_bytes = self._file.size() - self.content.size_bytes
        if tail_bytes > 0:
            self._is_dirty = True
            self._file.truncate(self.content.size_bytes)
        return max(tail_bytes, 0)

    def rewrite(self, position: int) -> None:
        """Write the bytes from ``position`` on once more, as they are; durable after `sync`.

        What is read may be in the page cache only, in pages that the kernel holds for clean since a sync of them has
        failed: syncing once more would write nothing and report success. Source: Rebello et al., USENIX ATC 2020.
        """
        for start in range(position, self.content.size_bytes, REWRITTEN_SIZE_BYTES):
            size_bytes = min(REWRITTEN_SIZE_BYTES, self.content.size_bytes - start)
            self._is_dirty = True
            self._file.pwrite([self._file.pread(size_bytes, start)], start)

    def truncate_to(self, position: int, end_offset: Offset) -> None:
        """Cut at a batch (see `SegmentView.find_end`), and be open for appends; durable after `sync`."""
        content = self.content
        self._is_dirty = True
        self._file.truncate(position)
        content.size_bytes, content.end_offset = position, end_offset
        if position == 0:
            content.first_timestamp = None
        kept_position = content.index.truncate_to(end_offset)
        for _, kept in scan_headers(self.path, self._file, kept_position, position):
            content.index.observe_time(kept)
        offsets, times = self._index_files or self.begin()
        offsets.cut_to(content.index.offsets_count, preallocate=True)
        times.cut_to(content.index.times_count, preallocate=True)

    def seal(self) -> None:
        """End the segment: its index files get their last entry, are trimmed, synced and closed.

        The log file is not synced; `truncate_to` opens the segment again.
        """
        self.content.index.finish()
        files = self._index_files or self.begin()
        self._write_index()
        for file in files:
            file.cut_to(file.count, preallocate=False)
            file.sync()
            file.close()
        self._index_files = None
        self._release()

    def sync(self) -> None:
        """Make the log file durable if it changed. Never repeat it after it failed."""
        if self._is_dirty:
            self._file.sync()
            self._is_dirty = False
        self._release()

    def close(self) -> None:
        """Close the files without syncing; readers must have ended."""
        self._close_index()
        self._file.close()

    def remove(self) -> None:
        """Remove the files, the log first; durable after a sync of the directory.

        Readers may still hold a view: they find no file, and see by the log's generation why.
        """
        self._close_index()
        for suffix in SEGMENT_SUFFIXES:
            self._fs.remove(self.path.with_suffix(suffix))
        self._file.removed()

    def retire(self) -> None:
        """Let the files no longer count, the log first: as ``.deleted`` they wait for who removes them.

        Durable after a sync of the directory. Freeing gigabytes takes a disk a while, and a rename does not.
        Readers may still hold a view, as after `remove`.
        """
        self._close_index()
        for suffix in SEGMENT_SUFFIXES:
            path = self.path.with_suffix(suffix)
            self._fs.rename(path, path.with_name(path.name + DELETED))
        self._file.removed()

    def _release(self) -> None:
        """A sealed segment that is durable needs no open file."""
        if self._index_files is None and not self._is_dirty:
            self._file.release()

    def _close_index(self) -> None:
        for file in self._index_files or ():
            file.close()
        self._index_files = None

    def _write_index(self) -> None:
        offsets, times = self._index_files or self.begin()
        offsets.write(self.content.index.offset_bytes(offsets.count))
        times.write(self.content.index.time_bytes(times.count))
