"""A live quorum as a source: a query over what is committed now, and a stream of what is committed from then on.

`LiveQuorum` is a blocking interface to a quorum. Calls within one block share an event loop of their own and one
connection to the leader, so it works on the driver and in any task. It only reads committed records, whoever leads
meanwhile; it returns whole batches in order and holds at most one chunk of them.

A stream offset has the next offset of the log, its cluster id (a checkpoint of another quorum is rejected), and where
the stream ``began``, because Spark asks for the start of the first micro-batch again after a kill. Invariant: the two
offsets of a micro-batch alone decide its rows. Each task fetches a range of the offsets from the leader.

Source: KIP-595 §Fetch (an observer without an id); Spark's Kafka source (``KafkaOffsetReader``); PySpark
``DataSourceStreamReader``.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from pykraft.client.remote.observer import QUERY_LIMITS, QUERY_PATIENCE, Observer, Start
from pykraft.errors import UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.batch import read_header
from pykraft.spark.data_source.decode import batches_of, records_of
from pykraft.spark.data_source.options import Bound, SourceOptions, TriggerDelay, default_limit, records_and_bytes
from pykraft.spark.data_source.selection import Selection, columns_for, select
from pykraft.spark.data_source.splits import Bounds, Origin
from pykraft.spark.error_text import rows_without_traceback, without_traceback
from pykraft.types import Buffer, Endpoint, Offset

CHUNK_SIZE_BYTES = 4 * 1024 * 1024
CLIENT_ID = "pykraft-spark"


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The committed offsets, from ``start_offset`` to ``end_offset`` (exclusive)."""

    start_offset: Offset
    end_offset: Offset


class LiveQuorum(AbstractContextManager["LiveQuorum", None]):
    """A quorum, reached through some of its nodes; with ``cluster_id`` nodes of another cluster are rejected."""

    def __init__(self, controllers: Sequence[Endpoint], cluster_id: str | None = None) -> None:
        self._controllers = tuple(controllers)
        self._runner = asyncio.Runner()
        self._observer = Observer(
            controllers, cluster_id=cluster_id, client_id=CLIENT_ID, patience=QUERY_PATIENCE, limits=QUERY_LIMITS
        )

    def __exit__(self, *_: object) -> None:
        with self._runner:
            self._runner.run(self._observer.close())

    @property
    def name(self) -> str:
        return f"the quorum at {','.join(map(str, self._controllers))}"

    def find_cluster_id(self) -> str | None:
        """Its cluster id; None if its nodes do not report it. Errors: as `extent`."""
        return self._runner.run(self._observer.find_cluster_id())

    def extent(self) -> Extent:
        """The committed offsets now. Errors: QuorumUnavailableError, ForeignClusterError."""
        self._observer.seek(Start.EARLIEST)
        start_offset = self._runner.run(self._observer.begin())
        assert self._observer.high_watermark is not None
        return Extent(start_offset=start_offset, end_offset=self._observer.high_watermark)

    def batch_at(self, offset: Offset) -> CommittedBatch:
        """The batch that holds a committed offset. Errors: as `extent`; UsageError."""
        self._observer.seek(offset)
        return self._runner.run(self._observer.__anext__())

    def chunks(self, start_offset: Offset, end_offset: Offset) -> Iterator[bytes]:
        """The batches that hold these committed offsets; about 4 MiB at a time. Nothing else may be asked meanwhile.

        Errors: as `batch_at`; ProtocolError if the quorum lost committed records.
        """
        if start_offset >= end_offset:
            return
        parts = self._chunks(start_offset, end_offset)
        found: list[bytes] = []

        async def find() -> None:
            # Not as the task's result: when asyncio puts the handler of SIGINT back, Python writes a text about the
            # task with the whole result in it, which took four fifths of the processor time of reading.
            async for part in parts:
                found.append(part)
                return

        try:
            while True:
                self._runner.run(find())
                if not found:
                    return
                yield found.pop()
        finally:
            self._runner.run(parts.aclose())

    async def _chunks(self, start_offset: Offset, end_offset: Offset) -> AsyncGenerator[bytes]:
        self._observer.seek(start_offset)
        parts: list[Buffer] = []
        size_bytes = 0
        async for batch in self._observer:
            parts.append(batch.data)
            size_bytes += len(batch.data)
            is_last = batch.end_offset >= end_offset
            if is_last or size_bytes >= CHUNK_SIZE_BYTES:
                yield b"".join(parts)
                parts, size_bytes = [], 0
            if is_last:
                return


def first_since(quorum: LiveQuorum, extent: Extent, timestamp_ms: int) -> Offset:
    """The offset of the first batch that is not older, by bisection; the end if there is none.

    Errors: as `LiveQuorum.batch_at`.
    """
    # Append times rarely decrease. If a leader's clock went back, the result is one of several possible offsets.
    low, high = extent.start_offset, extent.end_offset
    while low < high:
        batch = quorum.batch_at(Offset((low + high) // 2))
        if batch.timestamp_ms >= timestamp_ms:
            high = Offset(max(low, batch.base_offset))
        else:
            low = batch.end_offset
    return low


RECORDS_PER_TASK = 250_000
"""About as many."""


@dataclass(frozen=True)
class LivePartition(InputPartition):
    """The offsets that one task fetches; the end is exclusive."""

    start_offset: Offset
    end_offset: Offset
    cluster_id: str | None
    is_first: bool = True


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of committed records."""

    def __init__(self, options: SourceOptions, columns: StructType | None = None) -> None:
        """Without ``columns`` it has all. Errors: UsageError for columns that the source does not have."""
        self._options = options
        self._selection = select(columns or columns_for(options), options)
        self._end: Offset | None = None
        self._delay = TriggerDelay(options)

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as below
        """See `DataSourceStreamReader`: as the options say."""
        with LiveQuorum(self._options.controllers) as quorum:
            # First the leader, which then answers for its cluster.
            start = find_start(quorum, quorum.extent(), self._options)
            return {"cluster": quorum.find_cluster_id(), "offset": start, "began": start}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See `DataSourceStreamReader`; with both limits Spark gets the records, and `latestOffset` adds the bytes."""
        return default_limit(self._options)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See `SupportsTriggerAvailableNow`: the stream ends at the current high watermark."""
        with LiveQuorum(self._options.controllers) as quorum:
            self._end = quorum.extent().end_offset

    @without_traceback
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """See `DataSourceStreamReader`. A limit in bytes is an average, estimated from the size of the next records.

        Errors: ForeignClusterError for a checkpoint of another quorum; UsageError if the log starts after it.
        """
        records, size_bytes = records_and_bytes(limit, self._options)
        with LiveQuorum(self._options.controllers, start["cluster"]) as quorum:
            extent = quorum.extent()
            begin = there(start["offset"], extent, self._options)
            most = min(extent.end_offset, find_end(quorum, extent, self._options.end))
            end = most = most if self._end is None else min(most, self._end)
            if records is not None:
                end = min(end, Offset(begin + records))
            if size_bytes is not None and begin < end:
                end = min(end, Offset(begin + max(1, int(size_bytes / average_size_bytes(quorum, begin)))))
            end = aligned(quorum, begin, end, most)
        if self._end is None and self._delay.holds_back(end - begin):
            return start
        return start | {"offset": end}

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        is_first = start.get("began") == start["offset"]
        begin = end.get("began", start["offset"]) if is_first else start["offset"]
        if not self._options.fails_on_data_loss:
            with LiveQuorum(self._options.controllers, start["cluster"]) as quorum:
                begin = there(begin, quorum.extent(), self._options)
        return splits_of(begin, end["offset"], start["cluster"], tasks_min=self._options.tasks_min)

    @rows_without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceStreamReader`. Errors: as `LiveQuorum.chunks`."""
        return fetch_rows(partition, self._options, self._selection)

    @without_traceback
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """See `DataSourceStreamReader`: the high watermark."""
        with LiveQuorum(self._options.controllers) as quorum:
            return {"offset": quorum.extent().end_offset}


def plan_query(options: SourceOptions, bounds: Bounds) -> list[LivePartition]:
    """The splits of a query. Errors: QuorumUnavailableError; UsageError for an offset outside of the log."""
    with LiveQuorum(options.controllers) as quorum:
        extent = quorum.extent()
        cluster_id = quorum.find_cluster_id()
        start = max(find_start(quorum, extent, options), bounds.offset_min)
        end = min(find_end(quorum, extent, options.end), bounds.offset_end)
    return splits_of(start, end, cluster_id, tasks_min=options.tasks_min)


def find_start(quorum: LiveQuorum, extent: Extent, options: SourceOptions) -> Offset:
    """The start offset. Errors: UsageError for an offset below the log start, unless the loss of data is allowed."""
    bound = options.start
    if bound.by_replica:
        raise UsageError("a live quorum has one log: give one offset, not offsets by replica")
    if bound.offset is not None:
        return there(bound.offset, extent, options)
    if bound.timestamp_ms is not None:
        return first_since(quorum, extent, bound.timestamp_ms)
    return extent.end_offset if bound.is_latest else extent.start_offset


def find_end(quorum: LiveQuorum, extent: Extent, bound: Bound) -> Offset:
    """The end offset (exclusive): the requested one, which may not be committed yet, or the high watermark."""
    if bound.by_replica:
        raise UsageError("a live quorum has one log: give one offset, not offsets by replica")
    if bound.offset is not None:
        return bound.offset
    return extent.end_offset if bound.timestamp_ms is None else first_since(quorum, extent, bound.timestamp_ms)


def there(offset: Offset, extent: Extent, options: SourceOptions) -> Offset:
    """This offset, or the log start if the log no longer holds it and that may be. Errors: UsageError if it may not."""
    if offset < extent.start_offset and options.fails_on_data_loss:
        raise UsageError(
            f"offset {offset} is no longer in the log, which begins at {extent.start_offset}: earlier records are only "
            "in a snapshot, which this source does not read. Start at earliest; a stream also needs a new checkpoint"
        )
    return max(offset, extent.start_offset)


def average_size_bytes(quorum: LiveQuorum, offset: Offset) -> float:
    """The average size of a record in the batch that holds this offset, with the header. Errors: as `LiveQuorum`."""
    batch = quorum.batch_at(offset)
    return len(batch.data) / (batch.end_offset - batch.base_offset)


def aligned(quorum: LiveQuorum, begin: Offset, end: Offset, most: Offset) -> Offset:
    """Move an end that a limit set to the end of a batch: back if any batch remains, else forward, never past ``most``.

    Errors: as `LiveQuorum`.
    """
    if not begin < end < most:
        return max(begin, end)
    batch = quorum.batch_at(end)
    if batch.base_offset == end or batch.base_offset > begin:
        return batch.base_offset
    return min(batch.end_offset, most)


def splits_of(
    start: Offset, end: Offset, cluster_id: str | None, *, tasks_min: int | None = None
) -> list[LivePartition]:
    """Split the offsets among tasks, at least so many if there are records for each.

    All have about as many: a small last one would leave other cores without work.
    """
    records = end - start
    if records <= 0:
        return []
    tasks = max(1, round(records / RECORDS_PER_TASK), min(records, tasks_min or 1))
    edges = [Offset(start + records * task // tasks) for task in range(tasks + 1)]
    return [LivePartition(low, high, cluster_id, is_first=low == start) for low, high in pairwise(edges)]


def fetch_rows(partition: InputPartition, options: SourceOptions, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The rows of one split. If two splits share a batch, each has its own records; as a batch it is in the first."""
    if not isinstance(partition, LivePartition):
        return  # without partitions, Spark reads an empty placeholder
    with LiveQuorum(options.controllers, partition.cluster_id) as quorum:
        origin = Origin(path=quorum.name, start_offset=partition.start_offset, end_offset=partition.end_offset)
        # The observer has compared the CRCs.
        for data in quorum.chunks(partition.start_offset, partition.end_offset):
            if options.rows == "batches":
                own = data if partition.is_first else _from(data, partition.start_offset)
                yield from batches_of(origin, own, are_checked=True, selection=selection)
            else:
                yield from records_of(origin, data, are_checked=True, selection=selection)


def _from(data: bytes, offset: Offset) -> bytes:
    """Whole batches without the one that starts below this offset; only the first can."""
    header = read_header(data)
    return data[header.size_bytes :] if header.base_offset < offset else data
