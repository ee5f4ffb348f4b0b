"""Finds replicas, and plans which part of a replica's log to read, from the options.

Patterns name partition directories, segment files, and globs of them, here and in object storage. A replica is named by
the part of its path that differs from the others. Times are those in the batch headers; if a time falls inside a batch,
which happens only with other clients' batches, the records decide. Invariant: every bound becomes an offset, so a query
reads one contiguous range of the log.

Source: KIP-595 (log layout); Spark's Kafka source (``startingTimestamp``).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from math import ceil
from pathlib import Path
from typing import TypeVar

from pykraft.errors import StorageError, UsageError
from pykraft.log.small_files import recovery_point
from pykraft.object_storage.files import Files
from pykraft.protocol.records import decode_records
from pykraft.spark.data_source.options import Bound, SourceOptions
from pykraft.spark.data_source.segment_walk import BatchSpan
from pykraft.spark.data_source.splits import EVERYTHING, Bounds, Limit, SplitPlan, plan_splits
from pykraft.spark.data_source.walk import (
    OFFSET_MAX,
    SPLIT_SIZE_BYTES,
    STRIDE_SIZE_BYTES,
    Cursor,
    ReplicaLog,
    segments_of,
    stride_over,
)
from pykraft.types import Offset

T = TypeVar("T")
TASKS = 4_096
"""Tasks of a query, about, over a log that has more than this many splits of `SPLIT_SIZE_BYTES`."""
SPLIT_SIZE_BYTES_MIN = 1024 * 1024
TRIES_MAX = 5
"""How often to look again because a live node deleted a segment meanwhile."""


def find_replicas(patterns: Sequence[str]) -> list[ReplicaLog]:
    """The replicas that these patterns match, each once; if a pattern names segment files, only those are read.

    What they list of object storage is listed once, for as long as the replicas are used.

    Errors: UsageError if a pattern matches no segment; StorageError.
    """
    fs = Files()
    whole: set[Path] = set()
    named: dict[Path, set[Path]] = {}
    for pattern in patterns:
        found = 0
        for path in fs.find(pattern):
            files = segments_of(fs, path)
            found += len(files)
            if files and fs.is_folder(path):
                whole.add(path)
            elif files:
                named.setdefault(path.parent, set()).add(path)
        if not found:
            raise UsageError(f"{pattern}: no segment files; give partition directories, .log files or globs of them")
    directories = sorted(whole | named.keys())
    names = replica_names(directories)
    return [
        ReplicaLog(names[directory], directory, None if directory in whole else sorted(named[directory]), fs)
        for directory in directories
    ]


def replica_names(directories: Sequence[Path]) -> dict[Path, str]:
    """A short name for each directory: the part of its path that differs from the others."""
    if len(directories) == 1:
        return {directories[0]: directories[0].parent.name or str(directories[0])}
    parts = {directory: directory.absolute().parts for directory in directories}
    start = _common_length(list(parts.values()))
    end = _common_length([tuple(reversed(each)) for each in parts.values()])
    return {directory: "/".join(each[start : len(each) - end]) or str(directory) for directory, each in parts.items()}


def _common_length(sequences: Sequence[Sequence[str]]) -> int:
    count = 0
    for column in zip(*sequences, strict=False):
        if len(set(column)) > 1:
            break
        count += 1
    return count


def split_size_bytes(replicas: Sequence[ReplicaLog], options: SourceOptions) -> int:
    """About how much of a segment one task of a query reads: more in a large log, less if more tasks are wanted.

    A task has a chunk of a split in memory at one time, whatever the size of the split. Errors: StorageError.
    """
    total_bytes = sum(while_segments_vanish(replica.size_bytes) for replica in replicas)
    size_bytes = max(SPLIT_SIZE_BYTES, total_bytes // TASKS)
    # As many splits of about one size: a small last one would leave all other cores without work.
    strides = ceil(total_bytes / max(1, ceil(total_bytes / size_bytes)) / STRIDE_SIZE_BYTES)
    size_bytes = min(size_bytes, max(1, strides) * STRIDE_SIZE_BYTES)
    return size_bytes if options.tasks_min is None else divided(total_bytes, options.tasks_min, size_bytes)


def divided(total_bytes: int, tasks: int, most: int) -> int:
    """The size of a split of which at least so many make the total; no more than ``most``, and not tiny."""
    return min(most, max(SPLIT_SIZE_BYTES_MIN, total_bytes // tasks))


def plan_batch(
    replica: ReplicaLog, options: SourceOptions, *, size_bytes: int = SPLIT_SIZE_BYTES, bounds: Bounds = EVERYTHING
) -> SplitPlan:
    """The splits of about this size that a query over the current log reads.

    Errors: UsageError for a start below the log start; CorruptionError, unless damage is to be marked; StorageError.
    """

    def plan() -> SplitPlan:
        start_offset, cursor = find_start(replica, options.start, or_log_start=not options.fails_on_data_loss)
        end_offset = min(bounds.offset_end, find_end(replica, options.end, cursor))
        if bounds.offset_min > start_offset:
            start_offset, cursor = bounds.offset_min, replica.seek(bounds.offset_min)
        spans = spans_from(replica, cursor, options, size_bytes=size_bytes)
        limit = Limit(end_offset=end_offset)
        made = plan_splits(
            replica.name, cursor, spans, start_offset=start_offset, limit=limit, size_bytes=size_bytes, fs=replica.fs
        )
        return replace(made, splits=tuple(split for split in made.splits if bounds.may_hold(split)))

    return while_segments_vanish(plan)


def spans_from(
    replica: ReplicaLog, cursor: Cursor, options: SourceOptions, *, size_bytes: int = STRIDE_SIZE_BYTES
) -> Iterator[BatchSpan]:
    """The log from a cursor on, in strides of about this many bytes; small ones if a limit may fall into one.

    If damage is to be marked, every header is read, to find where the damage ends. Errors: as `plan_batch`.
    """
    if options.tolerant:
        return replica.walk(cursor, tolerant=True)
    return stride_over(replica, cursor, size_bytes=size_bytes)


def while_segments_vanish(read: Callable[[], T]) -> T:
    """Call a function that reads a live node's files, again if a segment vanished meanwhile. Errors: those of it."""
    for left in reversed(range(TRIES_MAX)):
        try:
            return read()
        except StorageError as error:
            if left == 0 or not isinstance(error.__cause__, FileNotFoundError):
                raise
    raise AssertionError("the last try either returns or raises")


def check_bounds(replicas: Sequence[ReplicaLog], options: SourceOptions) -> None:
    """Reject offsets for a replica that does not exist, and a start above the end of the log.

    A single offset for several replicas may be above the ends of some, which are behind. Errors: UsageError.
    """
    for option, bound in (("startingOffsets", options.start), ("endingOffsets", options.end)):
        names = {name for replica in replicas for name in _names(replica)} if bound.by_replica else set()
        unknown = [name for name, _ in bound.by_replica if name not in names]
        if unknown:
            known = ", ".join(replica.name for replica in replicas)
            raise UsageError(f"the option {option} names {', '.join(unknown)}; the replicas are {known}")
    if not options.fails_on_data_loss:
        return
    offsets = ((replica, _asked_offset(replica, options.start)) for replica in replicas)
    asked = [(replica, offset) for replica, offset in offsets if offset is not None]
    beyond = [(replica, offset, end) for replica, offset in asked if offset > (end := end_of(replica))]
    if beyond and (options.start.by_replica or len(beyond) == len(asked)):
        replica, offset, end = beyond[0]
        raise UsageError(
            f"{replica.directory}: offset {offset} is above the end of the log, {end}: start at latest, or at an "
            "offset up to there"
        )


def _names(replica: ReplicaLog) -> tuple[str | None, ...]:
    return replica.name, replica.id, replica.path


def _asked_offset(replica: ReplicaLog, bound: Bound) -> Offset | None:
    # An id costs a look at another folder.
    return bound.offset_of(*_names(replica)) if bound.by_replica else bound.offset


def find_start(replica: ReplicaLog, bound: Bound, *, or_log_start: bool = False) -> tuple[Offset, Cursor]:
    """The first wanted offset, or, if it is no longer there and that is allowed, the log start; and its batch.

    Errors: as `plan_batch`.
    """
    offset = _asked_offset(replica, bound)
    if offset is not None:
        if or_log_start:
            offset = max(offset, replica.start().offset)
        return offset, replica.seek(offset)
    start = replica.start()
    if bound.is_latest or bound.timestamp_ms is not None:
        offset = replica.end() if bound.is_latest else _since(replica, start, bound.timestamp_ms or 0)
        return offset, replica.seek(offset)
    replica.refuse_impossible()
    return start.offset, start


def end_of(replica: ReplicaLog) -> Offset:
    """The current end of a replica's log. Errors: StorageError."""
    return while_segments_vanish(replica.end)


def find_end(replica: ReplicaLog, bound: Bound, start: Cursor | None = None) -> Offset:
    """The end offset of a query (exclusive) that begins at ``start``, or where the log does. Errors: `plan_batch`."""
    offset = _asked_offset(replica, bound)
    if offset is not None:
        return offset
    if bound.is_committed:
        return _committed_end(replica)
    return OFFSET_MAX if bound.timestamp_ms is None else _since(replica, start or replica.start(), bound.timestamp_ms)


def _committed_end(replica: ReplicaLog) -> Offset:
    """Up to where the node noted that its log is committed: not above what is. Errors: UsageError; StorageError."""
    path = replica.directory / recovery_point.FILE_NAME
    if not replica.fs.exists(path):
        raise UsageError(
            f"{replica.directory} does not say how far it is committed, as no directory of Kafka's does: leave out "
            "endingOffsets = committed, or read a live quorum with bootstrap.controllers"
        )
    return recovery_point.parse_recovery_point(path, replica.fs.read(path)).committed_end_offset


def _since(replica: ReplicaLog, start: Cursor, timestamp_ms: int) -> Offset:
    """The first offset whose record is not older; the log end if there is none."""
    end = start.offset
    for one in replica.walk(start, tolerant=True):
        if one.header is not None and one.header.max_timestamp >= timestamp_ms:
            return _first_within(replica, one, timestamp_ms)
        end = one.end_offset
    return end


def _first_within(replica: ReplicaLog, one: BatchSpan, timestamp_ms: int) -> Offset:
    assert one.header is not None
    if one.header.base_timestamp >= timestamp_ms or one.header.is_log_append_time:
        return one.offset
    with closing(replica.fs.open(one.segment)) as file:
        data = file.pread(one.end_position - one.position, one.position)
    return next((Offset(each.offset) for each in decode_records(data) if each.timestamp_ms >= timestamp_ms), one.offset)
