"""Log directories as a stream: each micro-batch is what each replica appended since the last one.

A stream offset has for each replica the next offset of its log, and epoch and CRC of the batch before it. So a
restarted query continues where it was, and a query over another log, or over a rewritten one, is rejected: both ends of
each micro-batch are checked. The offset also has where the stream ``began``, because Spark does not store the start of
the first micro-batch and asks for it again after a kill. A replica may have more than is committed.

Which directories there are may change from one micro-batch to the next. A position belongs to the directory's id, or to
its path if it has none; the name that a replica gets from the paths of the moment is kept with it (`give_names`).

Invariant: the two offsets of a micro-batch alone decide its plan, so a repeated one has the same rows.

Source: PySpark ``DataSourceStreamReader``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.types import StructType

from pykraft.errors import CorruptionError, TruncatedLogError, UsageError
from pykraft.spark.data_source import file_plan
from pykraft.spark.data_source.decode import partitions_of, read_split
from pykraft.spark.data_source.options import SourceOptions, TriggerDelay, default_limit, records_and_bytes
from pykraft.spark.data_source.selection import columns_for, select
from pykraft.spark.data_source.splits import Limit, Split, SplitPlan, plan_splits
from pykraft.spark.data_source.walk import Cursor, ReplicaLog
from pykraft.spark.error_text import rows_without_traceback, without_traceback
from pykraft.spark.spark_versions import DataSourceStreamReader, InputPartition, ReadLimit, SupportsTriggerAvailableNow
from pykraft.types import Offset

MARKS_MAX: Final = 16
ReplicaPosition = dict[str, Any]
"""One replica in a checkpoint: ``path``, ``offset``, ``began``, and if known ``id``, ``epoch`` and ``crc``.

With ``onTruncation`` = ``repair`` also ``marks``, the positions before it; and ``cut``, if the micro-batch that ends
there began before the one before it ended: what was read from that offset on is void.

Those of older versions of pykraft have neither ``path`` nor ``id``."""


class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream over all replicas."""

    def __init__(self, options: SourceOptions, columns: StructType | None = None) -> None:
        """Without ``columns`` it has all. Errors: UsageError for columns that the source does not have."""
        self._options = options
        self._selection = select(columns or columns_for(options), options)
        self._cursors: dict[tuple[str, Offset], Cursor] = {}
        self._names: dict[str, str] = {}
        self._reached: dict[str, Any] | None = None
        self._end: dict[str, Any] | None = None
        self._delay = TriggerDelay(options)

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as below
        """See `DataSourceStreamReader`: as the options say."""
        replicas: dict[str, ReplicaPosition] = {}
        found = self._find_replicas()
        file_plan.check_bounds(found, self._options)
        for replica in found:
            replicas[replica.name] = self._new_position(replica)
        self._reached = {"cluster": _cluster_id(found), "replicas": replicas}
        return self._reached

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See `DataSourceStreamReader`; with both limits Spark gets the records, and `latestOffset` adds the bytes."""
        return default_limit(self._options)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See `SupportsTriggerAvailableNow`: the stream ends at the current log ends."""
        self._end = {
            replica.path: file_plan.end_of(replica) for replica in file_plan.find_replicas(self._options.patterns)
        }

    @without_traceback
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        """See `DataSourceStreamReader`; before Spark 4.2 without ``start``, which a restarted query then lacks.

        The replicas share the limit, but each gets at least one batch.

        Errors: UsageError for a checkpoint of another quorum, and for a truncated log; CorruptionError.
        """
        begin = start or self._reached
        self._reached = self._now() if begin is None else self._after(begin, limit)
        return self._reached

    def _now(self) -> dict[str, Any]:
        found = self._find_replicas()
        positions: dict[str, ReplicaPosition] = {}
        for replica in found:
            end = min(file_plan.end_of(replica), file_plan.find_end(replica, self._options.end))
            positions[replica.name] = owner_of(replica) | position_of(replica.seek(end), end, began=None)
        return {"cluster": _cluster_id(found), "replicas": positions}

    def _after(self, start: dict[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        replicas = self._replicas(start)
        share = max(1, len(replicas))
        found: dict[str, ReplicaPosition] = {}
        for replica in replicas:
            position = self._position(start, replica)
            most = self._limit(replica, limit, share)
            try:
                plan, cut = self._plan(replica, position, most), {}
            except TruncatedLogError as error:
                position = self._before_cut(replica, position, error)
                plan, cut = self._plan(replica, position, most), {"cut": position["offset"]}
            end = Offset(max(min(plan.end.offset, most.end_offset), position["offset"]))
            if end != position["offset"] or cut:
                marks = {"marks": marks_after(position)} if self._options.repairs_truncation else {}
                new = owner_of(replica) | position_of(plan.end, end, began=position.get("began"))
                position = new | marks | cut
            found[replica.name] = position
        if self._end is None and self._delay.holds_back(_records_between(start["replicas"], found)):
            return start
        is_same = found == {name: start["replicas"].get(name) for name in found}
        cluster_id = start["cluster"] if is_same else start["cluster"] or _cluster_id(replicas)
        return {"cluster": cluster_id, "replicas": {**start["replicas"], **found}}

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See `DataSourceStreamReader`. Errors: as `latestOffset`."""
        self._reached = end
        replicas = self._replicas(end)
        splits: list[Split] = []
        for replica in replicas:
            position = end["replicas"].get(replica.name)
            if position is not None:
                begin = _begin(self._position(start, replica), position)
                if position["offset"] < begin["offset"] and "cut" not in position:
                    raise replica.cut_back(begin["offset"])
                if position["offset"] <= begin["offset"]:
                    continue
                try:
                    plan = self._plan(replica, begin, Limit(end_offset=position["offset"]))
                    _check_end(replica, plan.end, position)
                except TruncatedLogError:
                    # Truncated since its end was determined: the next micro-batch begins before the cut.
                    if not self._options.repairs_truncation:
                        raise
                    continue
                splits += plan.splits
        return partitions_of(splits, self._options)

    @rows_without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(partition, self._options, self._selection)

    @without_traceback
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """See `DataSourceStreamReader`: the log ends."""
        replicas = file_plan.find_replicas(self._options.patterns)
        names = {replica.path: self._names.get(replica.path, replica.name) for replica in replicas}
        positions = {names[replica.path]: {"offset": file_plan.end_of(replica)} for replica in replicas}
        return {"cluster": _cluster_id(replicas), "replicas": positions}

    def _limit(self, replica: ReplicaLog, limit: ReadLimit | None, share: int) -> Limit:
        end = file_plan.find_end(replica, self._options.end)
        if self._end is not None:
            end = min(end, self._end.get(replica.path, Offset(0)))
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

    def _before_cut(self, replica: ReplicaLog, position: ReplicaPosition, error: TruncatedLogError) -> ReplicaPosition:
        """The newest mark of a position that the log still has. Errors: the given one if there is none."""
        marks = position.get("marks", []) if self._options.repairs_truncation else []
        for at in reversed(range(len(marks))):
            offset, epoch, crc = marks[at]
            mark: ReplicaPosition = {"offset": offset, "began": position.get("began"), "marks": marks[:at]}
            mark |= {} if crc is None else {"epoch": epoch, "crc": crc}
            with suppress(UsageError, CorruptionError):
                if resumed(replica, mark).offset <= offset:
                    self._cursors = {key: cursor for key, cursor in self._cursors.items() if key[0] != replica.name}
                    return mark
        raise error

    def _forget(self, replica: ReplicaLog, *, below: Offset) -> None:
        for name, offset in list(self._cursors):
            if name == replica.name and offset < below:
                del self._cursors[name, offset]

    def _position(self, start: Mapping[str, Any], replica: ReplicaLog) -> ReplicaPosition:
        """Where a replica's part starts; for a new replica, as the options say."""
        known = _owned(start["replicas"], replica)
        if known is not None:
            log_start = None if self._options.fails_on_data_loss else replica.start().offset
            return known if log_start is None or log_start <= known["offset"] else {"offset": log_start}
        return self._new_position(replica)

    def _new_position(self, replica: ReplicaLog) -> ReplicaPosition:
        or_log_start = not self._options.fails_on_data_loss
        offset, cursor = file_plan.find_start(replica, self._options.start, or_log_start=or_log_start)
        return owner_of(replica) | position_of(cursor, offset, began=offset)

    def _find_replicas(self) -> list[ReplicaLog]:
        """The replicas of the moment, under the names of the moment. Errors: as `find_replicas`."""
        replicas = file_plan.find_replicas(self._options.patterns)
        ids = [replica.id for replica in replicas]
        for replica, directory_id in zip(replicas, ids, strict=True):
            replica.is_copy = ids.count(directory_id) > 1
        return replicas

    def _replicas(self, known: Mapping[str, Any]) -> list[ReplicaLog]:
        """The replicas of the moment, under the names that a stream offset has. Errors: UsageError."""
        replicas = self._find_replicas()
        _check_cluster(known, replicas)
        give_names(replicas, known["replicas"])
        self._names = {replica.path: replica.name for replica in replicas}
        return replicas


def owner_of(replica: ReplicaLog) -> ReplicaPosition:
    """What a position belongs to."""
    return {"path": replica.path} if replica.id is None else {"path": replica.path, "id": replica.id}


def _owned(positions: Mapping[str, ReplicaPosition], replica: ReplicaLog) -> ReplicaPosition | None:
    """The position of a replica. Before Spark 4.2 the two ends of a micro-batch may have different names for it."""

    def is_of(position: ReplicaPosition) -> bool:
        return position.get("path") == replica.path or (replica.id is not None and position.get("id") == replica.id)

    named = positions.get(replica.name)
    if named is not None and ("path" not in named or is_of(named)):
        return named
    return next((position for position in positions.values() if is_of(position)), None)


def give_names(replicas: Sequence[ReplicaLog], known: Mapping[str, ReplicaPosition]) -> None:
    """Give replicas the names that their positions have in a stream, whatever directories have come and gone since.

    1. The path is the same, and so is the id as far as both are known.
    2. The id is the same: the directory was moved.
    3. The path is the same, but the id is another one: the directory was formatted again, and maybe filled again by its
       leader. Then epoch and CRC say whether it has the same log.
    4. A position of an older version has only a name, which was a part of the path.
    5. Others are new. Their name is that of the moment, unless another replica has it already.

    Errors: UsageError if it is unknown which replica an old position is of, or for another log under the same path.
    """
    left = dict(known)
    waiting = list(replicas)

    def match(is_same: Callable[[ReplicaLog, str, ReplicaPosition], bool]) -> None:
        for replica in list(waiting):
            found = next((name for name, position in left.items() if is_same(replica, name, position)), None)
            if found is not None:
                _refuse_unproven(replica, left.pop(found))
                waiting.remove(replica)
                replica.name = found

    def is_at(replica: ReplicaLog, position: ReplicaPosition) -> bool:
        return position.get("path") == replica.path

    # 1., 2., 3. In this order: a directory may stand where another one was before.
    match(lambda replica, _, position: is_at(replica, position) and position.get("id") in (None, replica.id))
    match(lambda replica, _, position: replica.id is not None and position.get("id") == replica.id)
    match(lambda replica, _, position: is_at(replica, position))
    # 4. As the version that wrote it would name it, or else a folder of the path.
    match(lambda replica, name, position: "path" not in position and replica.name == name)
    for old in [name for name, position in left.items() if "path" not in position]:
        may_be = [replica for replica in waiting if f"/{old}/" in f"{replica.path}/"]
        if len(may_be) > 1:
            raise UsageError(
                f"the checkpoint of an older pykraft names a replica {old}, which may be "
                f"{' or '.join(replica.path for replica in may_be)}: run the query once more with the directories that "
                "it had, or start over with another checkpoint"
            )
        for replica in may_be:
            waiting.remove(replica)
            replica.name = old
    # 5. Two replicas of one name would have one position.
    for replica in waiting:
        if replica.name in known:
            replica.name = replica.path


def _refuse_unproven(replica: ReplicaLog, position: ReplicaPosition) -> None:
    """Refuse a position in a directory with another id, unless a CRC can tell. Errors: UsageError."""
    if None in (replica.id, position.get("id")) or replica.id == position["id"]:
        return
    if "crc" not in position and position["offset"] != position.get("began"):
        raise replica.cut_back(position["offset"])


def _cluster_id(replicas: Sequence[ReplicaLog]) -> str | None:
    """The cluster of these logs, if their directories say so. Errors: UsageError for several clusters."""
    found = {replica.meta.cluster_id for replica in replicas if replica.meta is not None}
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


def marks_after(position: ReplicaPosition) -> list[list[int | None]]:
    """The marks of the next position: offset, epoch and CRC of those before it, the newest last."""
    marks: list[list[int | None]] = position.get("marks", [])
    return [*marks, [position["offset"], position.get("epoch"), position.get("crc")]][-MARKS_MAX:]


def _begin(start: ReplicaPosition, end: ReplicaPosition) -> ReplicaPosition:
    """Where a micro-batch starts. Spark may have asked twice for the first one's start; its end has the right one."""
    if "cut" in end and end != start:
        return {"offset": end["cut"]}
    is_first = start.get("began") == start["offset"]
    began = end.get("began", start["offset"])
    return {"offset": began} if is_first and began != start["offset"] else start


def resumed(replica: ReplicaLog, position: ReplicaPosition) -> Cursor:
    """The batch that holds a position's offset. Errors: UsageError if the batch before it has changed."""
    if "crc" not in position:
        cursor = replica.seek(position["offset"])
        has_read = position["offset"] > position.get("began", position["offset"])
        if has_read and cursor.offset < position["offset"] and cursor.offset == replica.end():
            raise replica.cut_back(position["offset"])
        return cursor
    return replica.resume(Cursor(offset=position["offset"], epoch=position["epoch"], crc=position["crc"]))


def _check_end(replica: ReplicaLog, found: Cursor, position: ReplicaPosition) -> None:
    known = {key: position[key] for key in ("offset", "epoch", "crc") if key in position}
    if found.offset < position["offset"] or (
        "crc" in position and position_of(found, found.offset, began=None) != known
    ):
        raise replica.cut_back(position["offset"])
