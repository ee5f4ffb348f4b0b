"""A durable log: the segments of one partition directory, from ``start_offset`` to ``end_offset``.

This module decides when to roll, what is durable, and what readers see. Invariants:

- Batches have no gaps between them, epochs never go backwards.
- A truncation is durable before a later append reaches a file. Otherwise a power loss could leave a mix of old and new
  batches of equal size, each sound in itself (etcd's append ABA story, on disk):
  1. the log cuts off batches A5 A6 and writes B5 B6 of the same sizes in their place;
  2. the disk keeps the page of B6 but not the page of B5;
  3. the log now reads A5 B6, which passes every check.
- One thread writes. Any thread reads a tuple of immutable views, which the writer replaces as a whole.

A StorageError from a writing method leaves the log unusable: memory and disk may differ.

If somebody deletes or renames the directory of a running node, it goes on in its open files, and a restart finds none
of that. A sync notices a deleted file but not a renamed one, and an idle node syncs nothing. So the lane's thread
checks between two jobs that the files which cannot be derived again still have their names (`Presence`).

Only the newest bytes of the log stay in the page cache. Without a hint the system keeps every page until memory is
short, and each append needs memory that was not used before, which on a virtual machine is several times as slow. Only
synced bytes are given back.

Source: Kafka's ``UnifiedLog``, ``LocalLog``, ``KafkaRaftLog``; KIP-595; PostgreSQL's ``XLogFileClose`` and
``posix_fadvise(2)`` (pages); ours (the check of names).
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pykraft.config import INT32_MAX, LogSettings
from pykraft.core.epochs import EpochCache
from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.log.fs import Fs
from pykraft.log.recovery import RecoveredLog, Recovery, cut_damage, recover
from pykraft.log.segment import Segment, SegmentContent, SegmentView
from pykraft.log.small_files.epoch_checkpoint import write_epochs
from pykraft.log.small_files.meta import PARTITION_METADATA, own_partition
from pykraft.log.small_files.quorum_state import FILE_NAME as QUORUM_STATE
from pykraft.protocol.batch import BatchHeader
from pykraft.types import EPOCH_MAX, EPOCH_ZERO, Buffer, Epoch, EpochStart, Offset, Uuid

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


_LASTING: Final = frozenset({QUORUM_STATE, PARTITION_METADATA})
"""Files that are never removed, only replaced by a rename."""


class Presence:
    """The check for one partition directory. Only the writer's thread uses it."""

    def __init__(self, fs: Fs, directory: Path) -> None:
        self._fs = fs
        self._directory = directory
        self._expected: frozenset[str] = frozenset()

    def check(self, views: Sequence[SegmentView]) -> None:
        """Compare the directory with all segments of the log. Errors: StorageError, which names what is gone."""
        if not self._fs.exists(self._directory):
            raise _gone(self._directory)
        active = views[-1]
        # Same name is not enough here: somebody may have put a copy in the file's place.
        if not active.file.is_at(active.path):
            raise _gone(active.path)
        names = frozenset(self._fs.listdir(self._directory))
        for name in (*sorted(self._expected), *(view.path.name for view in views)):
            if name not in names:
                raise _gone(self._directory / name)
        # quorum-state does not exist before the first election, so a file is required only once it was seen.
        self._expected = names & _LASTING


def _gone(path: Path) -> StorageError:
    return StorageError(
        path,
        "is gone, or something else is in its place: somebody deleted or renamed it while the node runs",
        repair="find out who did, and put it back if it was moved; a node that starts without it takes part once the "
        "other voters have proven its directory",
    )


UNSYNCED_MAX: Final = 16
"""Most sealed segments that wait for the next flush; a roll syncs the older ones."""
POINT_FLUSHES_MAX: Final = 16
"""Flushes after which the recovery point is synced, unless the writer is idle before."""
POINT_SIZE_BYTES_MAX: Final = 1024 * 1024
"""Flushed bytes after which the recovery point is synced, even if that took fewer flushes."""


class Log:
    """The open log. Create it with `open`; the module describes threads and errors."""

    def __init__(self, fs: Fs, directory: Path, config: LogSettings, recovered: RecoveredLog) -> None:
        self.path = directory
        self._fs = fs
        self._config = config
        self._files = recovered.files
        self._segments = recovered.segments
        self._epochs = recovered.epochs
        self._point = recovered.point
        self._is_damaged = bool(recovered.report.corrupt)
        self._unsynced: list[Segment] = []
        self._is_directory_dirty = False
        self._flushes_since_point = 0
        self._bytes_since_point = 0
        self._is_point_due = False
        self.committed_end_offset = self._point.committed_end_offset if self._point is not None else Offset(0)
        """Everything below is committed, as far as `commit_to` and the last run said; a lower bound."""
        self._presence = Presence(fs, directory)
        self._page_cache = PageCache()
        self.generation = 0
        """Counts removals at either end: if it changed, an earlier read may have returned batches that are gone."""
        self._views = tuple(segment.view(self._epochs.entries) for segment in self._segments)
        self.start_offset = self._views[0].base_offset
        """First offset that counts; after a start, the base offset of the first segment."""

    @classmethod
    def open(
        cls, fs: Fs, directory: Path, *, config: LogSettings, topic_id: Uuid, epoch_max: Epoch = EPOCH_MAX
    ) -> tuple[Log, Recovery]:
        """Create the partition directory, or recover the log in it; durable when it returns.

        ``epoch_max`` is the epoch of ``quorum-state``, see `pykraft.log.judge`. With ``Recovery.corrupt`` the log
        shows only its sound prefix, and its files stay unchanged until `truncate_to` is called, which must come before
        any other write.

        Errors: StorageError; ForeignDirectoryError for another topic's directory.
        """
        own_partition(fs, directory, topic_id)
        recovered = recover(fs, directory, config, epoch_max=epoch_max)
        return cls(fs, directory, config, recovered), recovered.report

    @property
    def end_offset(self) -> Offset:
        """Offset of the next batch to append."""
        return self._views[-1].end_offset

    @property
    def last_epoch(self) -> Epoch:
        """Epoch of the last batch; 0 if there is none, also when the log begins at a snapshot."""
        latest = self._epochs.latest
        return latest.epoch if latest else EPOCH_ZERO

    @property
    def epochs(self) -> list[EpochStart]:
        """The start of each epoch, ascending. For the writer's thread only."""
        return list(self._epochs.entries)

    @property
    def size_bytes(self) -> int:
        return sum(view.size_bytes for view in self._views)

    def append(self, batches: Sequence[tuple[BatchHeader, Buffer]]) -> None:
        """Write whole, verified batches that follow ``end_offset``, with one write for each segment; not durable yet.

        Errors: StorageError.
        """
        assert not self._is_damaged, "damage is cut off before records follow"
        epochs_before = self._epochs.latest
        for header, data in batches:
            active = self._segments[-1]
            assert header.base_offset == active.end_offset, "batches are appended in order"
            assert header.size_bytes == len(data), "batches are appended whole"
            assert header.epoch >= self.last_epoch, "epochs never go backwards in a log"
            if self._must_roll(active, header):
                active = self._roll(active)
            active.stage(header, data)
            self._bytes_since_point += header.size_bytes
            self._epochs.assign(header.epoch, header.base_offset)
        self._write_staged(self._segments[-1])
        self._publish()
        # Before the next flush raises the recovery point: below that point the judge compares batches with this file.
        if self._epochs.latest != epochs_before:
            write_epochs(self._fs, self.path, self._epochs.entries)

    def flush(self) -> None:
        """Make everything appended durable, then raise the recovery point.

        Errors: StorageError; never call it again after one.
        """
        for segment in self._unsynced:
            segment.sync()
            self._page_cache.synced(segment)
        self._unsynced.clear()
        if self._is_directory_dirty:
            self._fs.sync_dir(self.path)
            self._is_directory_dirty = False
        if self._point is not None:
            self._flushes_since_point += 1
            # Half the way: `relieve` syncs the point then, so that no flush has to.
            self._is_point_due = (
                2 * self._flushes_since_point >= POINT_FLUSHES_MAX
                or 2 * self._bytes_since_point >= POINT_SIZE_BYTES_MAX
            )
            # Not each time: a sync of the point takes as long as one of the log, and acknowledgements wait for both
            # (ADR 059).
            if self._flushes_since_point >= POINT_FLUSHES_MAX or self._bytes_since_point >= POINT_SIZE_BYTES_MAX:
                self.settle()
            # Only now: the recovery point must never be above what is durable, or a torn tail would look like damage.
            self._point.raise_to(self.end_offset, self.committed_end_offset)

    def commit_to(self, offset: Offset) -> None:
        """Everything below is committed: the next flush, or `settle`, writes that down. Any one thread may call it."""
        self.committed_end_offset = max(self.committed_end_offset, offset)

    def settle(self) -> None:
        """Make the recovery point durable; for an idle writer, optional."""
        if self._point is not None:
            # The last flush came before the commit of its records. What is not flushed yet does not count.
            self._point.raise_to(self._point.offset, self.committed_end_offset)
            self._point.settle()
            self._flushes_since_point = self._bytes_since_point = 0

    def relieve(self) -> None:
        """Do what nobody waits for, after the appends were reported.

        Sync the recovery point before a flush would have to, give old pages of the page cache back, and reserve disk
        space ahead of the next appends.
        """
        if self._is_point_due:
            self.settle()
        self._page_cache.relieve()
        self._segments[-1].reserve()

    def check_files(self) -> None:
        """Check that the files are still where they were opened. Errors: StorageError when one is gone."""
        self._presence.check(self._views)

    def truncate_to(self, offset: Offset) -> None:
        """Drop everything from the batch that contains ``offset`` on; durable when it returns.

        1. Readers lose sight of the tail.
        2. The recovery point falls, durably.
        3. Later segments are removed, newest first, and the directory is synced.
        4. The segment that contains ``offset`` is cut and synced.

        A crash after any step leaves a sound log that ends at or above ``offset``. No append happens before step 4 is
        done.

        If the log is damaged, everything after its sound prefix goes first in the same order, whatever the offset.

        Errors: StorageError; CorruptionError when the batches before ``offset`` cannot be read.
        """
        assert self.start_offset <= offset, "a log is not truncated below its start"
        if self._is_damaged:
            self._point = cut_damage(self._fs, self.path, self._segments, self._epochs.entries, self._point)
            self._is_damaged = False
            self._publish()
        if offset >= self.end_offset:
            return
        kept = bisect_right(self._segments, offset, key=lambda segment: segment.base_offset)
        position, end_offset = self._views[kept - 1].find_end(offset)
        # 1. The new generation tells a reader that still has the old view why it finds other bytes.
        cut = replace(self._views[kept - 1], size_bytes=position, end_offset=end_offset)
        self._views = (*self._views[: kept - 1], cut)
        self.generation += 1
        # 2. If it fell after the cut, a crash in between would make the missing tail look like damage.
        assert self._point is not None, "only a damaged log has no recovery point"
        self._point.lower_to(end_offset)
        self.committed_end_offset = min(self.committed_end_offset, end_offset)
        # 3. Newest first: a crash in between leaves no gap.
        self._page_cache.forget()
        for segment in reversed(self._segments[kept:]):
            segment.remove()
        self._fs.sync_dir(self.path)
        self._is_directory_dirty = False
        del self._segments[kept:]
        active = self._segments[-1]
        # 4. Synced before any append: otherwise old and new batches of equal size could mix (see the module).
        active.truncate_to(position, end_offset)
        active.sync()
        self._unsynced = [segment for segment in self._unsynced if segment in self._segments[:-1]]
        self._publish()
        self._epochs.truncate_to(end_offset)
        write_epochs(self._fs, self.path, self._epochs.entries)

    def delete_before(self, offset: Offset) -> None:
        """Move the log start to ``offset``, where a snapshot ends, and retire the segments before it, oldest first.

        After a crash in between the log begins at the first segment that was not retired yet. If the file system kept
        only some later renames, the next start finishes the cleaning (`pykraft.log.recovery`).

        Errors: StorageError.
        """
        assert not self._is_damaged, "damage is cut off before the log is cleaned"
        assert self.start_offset <= offset <= self.end_offset
        self.start_offset = offset
        gone = bisect_right([segment.end_offset for segment in self._segments[:-1]], offset)
        # Readers lose sight of the segments before their files disappear.
        self._views = self._views[gone:]
        self.generation += 1
        # Oldest first: a crash in between leaves a log that begins later, and no gap.
        self._page_cache.forget()
        for segment in self._segments[:gone]:
            segment.retire()
        self._unsynced = [segment for segment in self._unsynced if segment not in self._segments[:gone]]
        del self._segments[:gone]
        self._fs.sync_dir(self.path)
        self._epochs.forget_before(self._segments[0].base_offset)
        write_epochs(self._fs, self.path, self._epochs.entries)

    def begin_anew_at(self, offset: Offset) -> None:
        """Retire the whole log and begin an empty one at ``offset``, where a frozen snapshot ends; then durable.

        1. Readers lose sight of everything.
        2. The recovery point falls to 0, durably, so nothing that disappears from now on counts as damage.
        3. All segments are retired, newest first, and the directory is synced.
        4. An empty segment begins at ``offset``, durably.
        5. Readers see the new segment.

        A crash before step 4 leaves part of the former log, or none of it. The next start finds that the snapshot is
        newer and does this again.

        Errors: StorageError.
        """
        if self._is_damaged:
            self._point = cut_damage(self._fs, self.path, self._segments, self._epochs.entries, self._point)
            self._is_damaged = False
        assert self._point is not None, "only a damaged log has no recovery point"
        # 1. Readers must not see the segments while the files disappear: a missing file counts as damage.
        self._views = (replace(self._views[-1], base_offset=offset, end_offset=offset, size_bytes=0),)
        self.generation += 1
        # 2. From here on a missing segment is not damage.
        self._point.lower_to(Offset(0))
        # 3. Newest first, as in `truncate_to`.
        self._page_cache.forget()
        for segment in reversed(self._segments):
            segment.retire()
        self._fs.sync_dir(self.path)
        # 4. The directory sync makes the name of the new segment durable.
        segment = Segment(self._fs, self._files, self.path, SegmentContent(offset, self._config), self._config)
        segment.begin()
        segment.sync()
        self._fs.sync_dir(self.path)
        self._epochs = EpochCache()
        write_epochs(self._fs, self.path, self._epochs.entries)
        self._segments, self._unsynced, self._is_directory_dirty = [segment], [], False
        # 5. Publish the new segment, then let the recovery point rise to it.
        self._views = (segment.view(self._epochs.entries),)
        self.start_offset = offset
        self._point.raise_to(offset, self.committed_end_offset)

    def read(self, offset: Offset, size_bytes_max: int) -> Buffer:
        """Whole batches from the one that contains ``offset`` on, checked, never across two segments.

        Returns at least one batch, however large, and further sound ones that fit into ``size_bytes_max``; empty at the
        end offset. Any thread may call it while the writer works. A truncation may cut off the returned batches at the
        same time, so code that sends them to a peer compares `generation` before and after.

        Errors: UsageError outside ``start_offset`` to ``end_offset``; CorruptionError for a damaged first batch.
        """
        while True:
            generation, views = self.generation, self._views
            if not views[0].base_offset <= offset <= views[-1].end_offset:
                ends = f"{views[0].base_offset} to {views[-1].end_offset}"
                raise UsageError(f"offset {offset} is not in this log, which goes from {ends}")
            if offset == views[-1].end_offset:
                return b""
            view = views[bisect_right(views, offset, key=lambda view: view.base_offset) - 1]
            try:
                return view.read(offset, size_bytes_max)
            except CorruptionError:
                # If the generation changed, a truncation moved the bytes under the old view: read again with the new
                # one.
                if generation == self.generation:
                    raise

    def views(self) -> Sequence[SegmentView]:
        """All segments as readers see them now, ascending; any thread may call it."""
        return self._views

    def close(self) -> None:
        """Flush, trim the indexes, sync everything and close. Readers must have stopped.

        A damaged log is closed without changing its files.
        """
        if not self._is_damaged:
            self.flush()
            self.settle()
            self._segments[-1].seal()
            self._fs.sync_dir(self.path)
        for segment in self._segments:
            segment.close()
        if self._point is not None:
            self._point.close()

    def _must_roll(self, active: Segment, header: BatchHeader) -> bool:
        """True when this batch must begin a new segment. Source: Kafka's ``LogSegment.shouldRoll``."""
        content = active.content
        # An empty segment takes any batch, however large.
        if content.first_timestamp is None:
            return False
        return (
            content.size_bytes + header.size_bytes > self._config.segment_size_bytes
            or header.max_timestamp - content.first_timestamp > self._config.segment_ms
            or header.last_offset - content.base_offset > INT32_MAX
            or content.is_index_full
        )

    def _roll(self, active: Segment) -> Segment:
        self._write_staged(active)
        active.seal()
        # Each unsynced segment keeps its file open, so their number is bounded.
        while len(self._unsynced) > UNSYNCED_MAX:
            self._unsynced.pop(0).sync()
        content = SegmentContent(active.end_offset, self._config)
        self._segments.append(Segment(self._fs, self._files, self.path, content, self._config))
        self._is_directory_dirty = True
        return self._segments[-1]

    def _write_staged(self, segment: Segment) -> None:
        segment.write()
        if segment not in self._unsynced:
            self._unsynced.append(segment)

    def _publish(self) -> None:
        """Show readers what the segments contain now; views of sealed segments stay as they are."""
        known = self._views[: len(self._segments)][:-1]
        epochs = self._epochs.entries
        self._views = (*known, *[segment.view(epochs) for segment in self._segments[len(known) :]])
