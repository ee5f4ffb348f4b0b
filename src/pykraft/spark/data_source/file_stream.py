"""Log directories as a stream: each micro-batch is what each replica appended since the last one.

A stream offset has for each replica the next offset of its log, and epoch and CRC of the batch before it. So a
restarted query continues where it was, and a query over another log, or over one that was truncated and rewritten, is
rejected: both ends of each micro-batch are checked, also within one run. The offset also has where the stream ``began``
in that log, because Spark does not store the start of the first micro-batch and asks for it again after a kill. The
stream reads everything that a replica has, which may be more than is committed; to get committed records only, read a
live quorum.

Invariant: the two offsets of a micro-batch alone decide its plan, so a repeated one has the same rows. State between
calls only saves time.

Source: PySpark ``DataSourceStreamReader``; Spark's Kafka source.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow

from pykraft.errors import CorruptionError, StorageError, UsageError
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.spark.data_source.file_plan import (
    check_names,
    end_of,
    find_end,
    find_start,
    stretches_from,
    while_segments_vanish,
)
from pykraft.spark.data_source.files import find_replicas
from pykraft.spark.data_source.limits import default_limit, records_and_bytes
from pykraft.spark.data_source.options import SourceOptions
from pykraft.spark.data_source.read_split import PiecePartition, read_piece
from pykraft.spark.data_source.splits import Limit, Plan, plan_pieces
from pykraft.spark.data_source.tracebacks import plain_rows, plainly
from pykraft.spark.data_source.walk import Cursor, Replica
from pykraft.types import Offset

Place = dict[str, Any]
"""One replica in a checkpoint: ``offset``, ``began``, and if known ``epoch`` and ``crc``."""


class FilesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One stream over all replicas."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._cursors: dict[tuple[str, Offset], Cursor] = {}
        self._end: dict[str, Any] | None = None

    @plainly
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as below
        """See `DataSourceStreamReader`: as the options say."""
        replicas: dict[str, Place] = {}
        found = find_replicas(self._options.patterns)
        check_names(found, self._options)
        for replica in found:
            offset, cursor = find_start(replica, self._options.start)
            replicas[replica.name] = place_of(cursor, offset, began=offset)
        return {"cluster": self._cluster_id(), "replicas": replicas}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See `DataSourceStreamReader`; with both limits Spark gets the records, and `latestOffset` adds the bytes."""
        return default_limit(self._options)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See `SupportsTriggerAvailableNow`: the stream ends at the current log ends."""
        self._end = {replica.name: end_of(replica) for replica in find_replicas(self._options.patterns)}

    @plainly
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """See `DataSourceStreamReader`. The replicas share the limit, but each gets at least one batch.

        Errors: UsageError for a checkpoint of another quorum, and for a truncated log; CorruptionError.
        """
        self._check_cluster(start)
        replicas = find_replicas(self._options.patterns)
        share = max(1, len(replicas))
        found: dict[str, Place] = {}
        for replica in replicas:
            place = self._place(start, replica)
            most = self._limit(replica, limit, share)
            plan = self._plan(replica, place, most)
            end = Offset(max(min(plan.end.offset, most.end_offset), place["offset"]))
            is_new = end != place["offset"]
            found[replica.name] = place_of(plan.end, end, began=place.get("began")) if is_new else place
        missing = {name: place for name, place in start["replicas"].items() if name not in found}
        return {"cluster": start["cluster"], "replicas": found | missing}

    @plainly
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See `DataSourceStreamReader`. Errors: as `latestOffset`."""
        self._check_cluster(start)
        pieces: list[InputPartition] = []
        for replica in find_replicas(self._options.patterns):
            place = end["replicas"].get(replica.name)
            if place is not None:
                begin = _begin(self._place(start, replica), place)
                if place["offset"] == begin["offset"]:
                    continue
                plan = self._plan(replica, begin, Limit(end_offset=place["offset"]))
                _check_end(replica, plan.end, place)
                pieces += [PiecePartition(piece) for piece in plan.pieces]
        return pieces

    @plain_rows
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceStreamReader`."""
        return read_piece(partition, self._options)

    @plainly
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """See `DataSourceStreamReader`: the log ends."""
        replicas = find_replicas(self._options.patterns)
        places = {replica.name: {"offset": end_of(replica)} for replica in replicas}
        return {"cluster": self._cluster_id(), "replicas": places}

    def _limit(self, replica: Replica, limit: ReadLimit, share: int) -> Limit:
        end = find_end(replica, self._options.end, replica.start())
        if self._end is not None:
            end = min(end, self._end.get(replica.name, Offset(0)))
        records, size_bytes = records_and_bytes(limit, self._options)
        return Limit(
            end_offset=end,
            records_max=None if records is None else max(1, records // share),
            size_bytes_max=None if size_bytes is None else max(1, size_bytes // share),
        )

    def _plan(self, replica: Replica, place: Place, limit: Limit) -> Plan:
        """Plan what follows a place, up to a limit. The end is cached, since the next micro-batch starts there.

        The batch before the place is checked after planning, so that a truncation during the planning is noticed, too.
        """

        def plan() -> Plan:
            known = self._cursors.get((replica.name, place["offset"]))
            cursor = resumed(replica, place) if known is None else replica.resume(known)
            stretches = stretches_from(replica, cursor, self._options)
            try:
                made = plan_pieces(replica.name, cursor, stretches, start_offset=place["offset"], limit=limit)
            except CorruptionError:
                replica.resume(cursor)  # a rewritten log looks damaged from a cursor that it no longer contains
                raise
            self._cursors[replica.name, place["offset"]] = replica.resume(cursor)
            return made

        made = while_segments_vanish(plan)
        self._forget(replica, below=place["offset"])
        self._cursors[replica.name, made.end.offset] = made.end
        return made

    def _forget(self, replica: Replica, *, below: Offset) -> None:
        for name, offset in list(self._cursors):
            if name == replica.name and offset < below:
                del self._cursors[name, offset]

    def _place(self, start: Mapping[str, Any], replica: Replica) -> Place:
        """Where a replica's part starts; for a new replica, as the options say."""
        known: Place | None = start["replicas"].get(replica.name)
        if known is not None:
            return known
        offset, cursor = find_start(replica, self._options.start)
        return place_of(cursor, offset, began=offset)

    def _cluster_id(self) -> str | None:
        """The cluster of these logs, if their directories say so. Errors: UsageError for several clusters."""
        found = {_cluster_id_of(replica) for replica in find_replicas(self._options.patterns)} - {None}
        if len(found) > 1:
            raise UsageError(f"these are the logs of several clusters: {', '.join(sorted(map(str, found)))}")
        return found.pop() if found else None

    def _check_cluster(self, start: Mapping[str, Any]) -> None:
        remembered, found = start["cluster"], self._cluster_id()
        if remembered is not None and found is not None and remembered != found:
            raise UsageError(
                f"the checkpoint is that of a stream of cluster {remembered}, and these are the logs of {found}: "
                "give the query the logs that it began with, or a new checkpointLocation"
            )


def place_of(cursor: Cursor, offset: Offset, *, began: Offset | None) -> Place:
    """A place at an offset, which may lie within the batch before or after the cursor.

    ``began`` is None in checkpoints of older versions of pykraft.
    """
    place: Place = {"offset": offset} if began is None else {"offset": offset, "began": began}
    is_between = cursor.offset == offset and cursor.crc is not None
    return place | {"epoch": cursor.epoch, "crc": cursor.crc} if is_between else place


def _begin(start: Place, end: Place) -> Place:
    """Where a micro-batch starts. Spark may have asked twice for the first one's start; its end has the right one."""
    is_first = start.get("began") == start["offset"]
    began = end.get("began", start["offset"])
    return {"offset": began} if is_first and began != start["offset"] else start


def resumed(replica: Replica, place: Place) -> Cursor:
    """The batch that holds a place's offset. Errors: UsageError if the batch before it has changed."""
    if "crc" not in place:
        return replica.seek(place["offset"])
    return replica.resume(Cursor(offset=place["offset"], epoch=place["epoch"], crc=place["crc"]))


def _check_end(replica: Replica, found: Cursor, place: Place) -> None:
    """Reject a log whose content at the end of a micro-batch has changed since that end was decided."""
    known = {key: place[key] for key in ("offset", "epoch", "crc") if key in place}
    if found.offset < place["offset"] or ("crc" in place and place_of(found, found.offset, began=None) != known):
        raise replica.cut_back(place["offset"])


def _cluster_id_of(replica: Replica) -> str | None:
    path = replica.directory.parent / FILE_NAME
    try:
        return parse_meta(path, path.read_bytes()).cluster_id
    except (OSError, StorageError):
        return None
