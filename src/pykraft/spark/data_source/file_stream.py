"""Log directories as a stream: each micro-batch is what each replica appended since the last one.

A stream offset has for each replica the next offset of its log, and epoch and CRC of the batch before it. So a
restarted query continues where it was, and a query over another log, or over a rewritten one, is rejected: both ends of
each micro-batch are checked. The offset also has where the stream ``began``, because Spark does not store the start of
the first micro-batch and asks for it again after a kill. A replica may have more than is committed.

Invariant: the two offsets of a micro-batch alone decide its plan, so a repeated one has the same rows.

Source: PySpark ``DataSourceStreamReader``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.log.directory import meta_in
from pykraft.spark.data_source import file_plan
from pykraft.spark.data_source.decode import SplitPartition, read_split
from pykraft.spark.data_source.options import SourceOptions, TriggerDelay, default_limit, records_and_bytes
from pykraft.spark.data_source.selection import columns_for, select
from pykraft.spark.data_source.splits import Limit, SplitPlan, plan_splits
from pykraft.spark.data_source.walk import Cursor, ReplicaLog
from pykraft.spark.error_text import rows_without_traceback, without_traceback
from pykraft.types import Offset

ReplicaPosition = dict[str, Any]
"""One replica in a checkpoint: ``offset``, ``began``, and if known ``epoch`` and ``crc``."""


class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream over all replicas."""

    def __init__(self, options: SourceOptions, columns: StructType | None = None) -> None:
        """Without ``columns`` it has all. Errors: UsageError for columns that the source does not have."""
        self._options = options
        self._selection = select(columns or columns_for(options), options)
        self._cursors: dict[tuple[str, Offset], Cursor] = {}
        self._end: dict[str, Any] | None = None
        self._delay = TriggerDelay(options)

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as below
        """See `DataSourceStreamReader`: as the options say."""
        replicas: dict[str, ReplicaPosition] = {}
        found = file_plan.find_replicas(self._options.patterns)
        file_plan.check_names(found, self._options)
        for replica in found:
            offset, cursor = self._find_start(replica)
            replicas[replica.name] = position_of(cursor, offset, began=offset)
        return {"cluster": _cluster_id(found), "replicas": replicas}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See `DataSourceStreamReader`; with both limits Spark gets the records, and `latestOffset` adds the bytes."""
        return default_limit(self._options)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See `SupportsTriggerAvailableNow`: the stream ends at the current log ends."""
        self._end = {
            replica.name: file_plan.end_of(replica) for replica in file_plan.find_replicas(self._options.patterns)
        }

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """See `DataSourceStreamReader`. The replicas share the limit, but each gets at least one batch.

        Errors: UsageError for a checkpoint of another quorum, and for a truncated log; CorruptionError.
        """
        replicas = file_plan.find_replicas(self._options.patterns)
        _check_cluster(start, replicas)
        share = max(1, len(replicas))
        found: dict[str, ReplicaPosition] = {}
        for replica in replicas:
            position = self._position(start, replica)
            most = self._limit(replica, limit, share)
            plan = self._plan(replica, position, most)
            end = Offset(max(min(plan.end.offset, most.end_offset), position["offset"]))
            is_new = end != position["offset"]
            found[replica.name] = position_of(plan.end, end, began=position.get("began")) if is_new else position
        if self._end is None and self._delay.holds_back(_records_between(start["replicas"], found)):
            return start
        missing = {name: position for name, position in start["replicas"].items() if name not in found}
        return {"cluster": start["cluster"], "replicas": found | missing}

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See `DataSourceStreamReader`. Errors: as `latestOffset`."""
        replicas = file_plan.find_replicas(self._options.patterns)
        _check_cluster(start, replicas)
        splits: list[InputPartition] = []
        for replica in replicas:
            position = end["replicas"].get(replica.name)
            if position is not None:
                begin = _begin(self._position(start, replica), position)
                if position["offset"] <= begin["offset"]:
                    continue
                plan = self._plan(replica, begin, Limit(end_offset=position["offset"]))
                _check_end(replica, plan.end, position)
                splits += [SplitPartition(split) for split in plan.splits]
        return splits

    @rows_without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition, self._options, self._selection)

    @without_traceback
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """See `DataSourceStreamReader`: the log ends."""
        replicas = file_plan.find_replicas(self._options.patterns)
        positions = {replica.name: {"offset": file_plan.end_of(replica)} for replica in replicas}
        return {"cluster": _cluster_id(replicas), "replicas": positions}

    def _limit(self, replica: ReplicaLog, limit: ReadLimit, share: int) -> Limit:
        end = file_plan.find_end(replica, self._options.end, replica.start())
        if self._end is not None:
            end = min(end, self._end.get(replica.name, Offset(0)))
        records, size_bytes = records_and_bytes(limit, self._options)
        return Limit(
            end_offset=end,
            records_max=None if records is None else max(1, records // share),
            size_bytes_max=None if size_bytes is None else max(1, size_bytes // share),
        )

    def _plan(self, replica: ReplicaLog, position: ReplicaPosition, limit: Limit) -> SplitPlan:
        """Plan what follows a position, up to a limit. The end is cached, since the next micro-batch starts there.

        The batch before the position is checked after planning, so that a truncation during the planning is noticed,
        too.
        """

        def plan() -> SplitPlan:
            known = self._cursors.get((replica.name, position["offset"]))
            cursor = resumed(replica, position) if known is None else replica.resume(known)
            spans = file_plan.spans_from(replica, cursor, self._options)
            try:
                offset = position["offset"]
                made = plan_splits(replica.name, cursor, spans, start_offset=offset, limit=limit, fs=replica.fs)
            except CorruptionError:
                replica.resume(cursor)  # a rewritten log looks damaged from a cursor that it no longer contains
                raise
            self._cursors[replica.name, position["offset"]] = replica.resume(cursor)
            return made

        made = file_plan.while_segments_vanish(plan)
        self._forget(replica, below=position["offset"])
        self._cursors[replica.name, made.end.offset] = made.end
        return made

    def _forget(self, replica: ReplicaLog, *, below: Offset) -> None:
        for name, offset in list(self._cursors):
            if name == replica.name and offset < below:
                del self._cursors[name, offset]

    def _position(self, start: Mapping[str, Any], replica: ReplicaLog) -> ReplicaPosition:
        """Where a replica's part starts; for a new replica, as the options say."""
        known: ReplicaPosition | None = start["replicas"].get(replica.name)
        if known is not None:
            log_start = None if self._options.fails_on_data_loss else replica.start().offset
            return known if log_start is None or log_start <= known["offset"] else {"offset": log_start}
        offset, cursor = self._find_start(replica)
        return position_of(cursor, offset, began=offset)

    def _find_start(self, replica: ReplicaLog) -> tuple[Offset, Cursor]:
        return file_plan.find_start(replica, self._options.start, or_log_start=not self._options.fails_on_data_loss)


def _cluster_id(replicas: Sequence[ReplicaLog]) -> str | None:
    """The cluster of these logs, if their directories say so. Errors: UsageError for several clusters."""
    found = {_cluster_id_of(replica) for replica in replicas} - {None}
    if len(found) > 1:
        raise UsageError(f"these are the logs of several clusters: {', '.join(sorted(map(str, found)))}")
    return found.pop() if found else None


def _check_cluster(start: Mapping[str, Any], replicas: Sequence[ReplicaLog]) -> None:
    remembered, found = start["cluster"], _cluster_id(replicas)
    if remembered is not None and found is not None and remembered != found:
        raise UsageError(
            f"the checkpoint is that of a stream of cluster {remembered}, and these are the logs of {found}: "
            "give the query the logs that it began with, or a new checkpointLocation"
        )


def _records_between(start: Mapping[str, ReplicaPosition], end: Mapping[str, ReplicaPosition]) -> int:
    """How many records an end has that the start had not; all of a replica that is new."""
    return sum(position["offset"] - start.get(name, {"offset": 0})["offset"] for name, position in end.items())


def position_of(cursor: Cursor, offset: Offset, *, began: Offset | None) -> ReplicaPosition:
    """A position at an offset, which may lie within the batch before or after the cursor.

    ``began`` is None in checkpoints of older versions of pykraft.
    """
    position: ReplicaPosition = {"offset": offset} if began is None else {"offset": offset, "began": began}
    is_between = cursor.offset == offset and cursor.crc is not None
    return position | {"epoch": cursor.epoch, "crc": cursor.crc} if is_between else position


def _begin(start: ReplicaPosition, end: ReplicaPosition) -> ReplicaPosition:
    """Where a micro-batch starts. Spark may have asked twice for the first one's start; its end has the right one."""
    is_first = start.get("began") == start["offset"]
    began = end.get("began", start["offset"])
    return {"offset": began} if is_first and began != start["offset"] else start


def resumed(replica: ReplicaLog, position: ReplicaPosition) -> Cursor:
    """The batch that holds a position's offset. Errors: UsageError if the batch before it has changed."""
    if "crc" not in position:
        return replica.seek(position["offset"])
    return replica.resume(Cursor(offset=position["offset"], epoch=position["epoch"], crc=position["crc"]))


def _check_end(replica: ReplicaLog, found: Cursor, position: ReplicaPosition) -> None:
    known = {key: position[key] for key in ("offset", "epoch", "crc") if key in position}
    if found.offset < position["offset"] or (
        "crc" in position and position_of(found, found.offset, began=None) != known
    ):
        raise replica.cut_back(position["offset"])


def _cluster_id_of(replica: ReplicaLog) -> str | None:
    try:
        meta = meta_in(replica.fs, replica.directory.parent)
    except StorageError:
        return None
    return None if meta is None else meta.cluster_id
