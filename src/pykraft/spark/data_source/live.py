"""A live quorum as a source: a query over what is committed now, and a stream of what is committed from then on.

`LiveQuorum` is a blocking interface to a quorum. Calls within one block share an event loop of their own and one
connection to the leader, so it works on the driver and in any task. It only reads committed records, whoever leads
meanwhile; it returns whole batches in order and holds at most one chunk of them.

A stream offset has the next offset of the log, epoch and CRC of the batch before it, the cluster id, and where the
stream ``began``, because Spark asks for the start of the first micro-batch again after a kill. So a checkpoint of
another quorum is rejected, and of one that was wiped or restored under the same id. Invariant: the two offsets of a
micro-batch alone decide its rows. Each task fetches a range of the offsets from the leader.

How large records are, only a fetch says. Tasks are cut by estimates from a few batches, and so are micro-batches whose
limit in bytes is large; below `COUNTED_SIZE_BYTES_MAX` the bytes are counted.

Source: KIP-595 §Fetch (an observer without an id); Spark's Kafka source (``KafkaOffsetReader``); PySpark
``DataSourceStreamReader``.
"""

import asyncio
from bisect import bisect_left
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from pykraft.client.remote.observer import QUERY_LIMITS, QUERY_PATIENCE, Observer, Start
from pykraft.config import METADATA_TOPIC_NAME
from pykraft.errors import UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.batch import read_header
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.spark.data_source.decode import batches_of, records_of
from pykraft.spark.data_source.options import Bound, SourceOptions, TriggerDelay, default_limit, records_and_bytes
from pykraft.spark.data_source.selection import Selection, columns_for, select
from pykraft.spark.data_source.splits import Bounds, Limit, Origin
from pykraft.spark.data_source.walk import weight_of
from pykraft.spark.error_text import rows_without_traceback, without_traceback
from pykraft.spark.spark_versions import DataSourceStreamReader, InputPartition, ReadLimit, SupportsTriggerAvailableNow
from pykraft.types import Buffer, Endpoint, Offset

FETCH_SIZE_BYTES = QUERY_LIMITS.size_bytes_max
CHUNK_SIZE_BYTES = FETCH_SIZE_BYTES // 2
"""At least so much is decoded together: of large batches one whole answer, without a copy of it."""
CLIENT_ID = "pykraft-spark"
SAMPLES_MAX = 16
RECORDS_PER_SAMPLE = 64
COUNTED_SIZE_BYTES_MAX = 32 * 1024 * 1024
"""Up to this limit a stream fetches what a micro-batch will hold, to count its bytes; above, it estimates them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The committed offsets, from ``start_offset`` to ``end_offset`` (exclusive)."""

    start_offset: Offset
    end_offset: Offset
    topic: str = METADATA_TOPIC_NAME


@dataclass(frozen=True, slots=True)
class Sizes:
    """Offsets of a log in order, and for each how many bytes there are from the first one to it."""

    offsets: tuple[Offset, ...]
    sizes_bytes: tuple[int, ...]
    weight: int = 1
    """See `weight_of`."""

    @property
    def total_bytes(self) -> int:
        """Of all."""
        return self.sizes_bytes[-1]

    def offset_at(self, size_bytes: float) -> Offset:
        """The offset before which there are about so many bytes."""
        at = max(1, min(bisect_left(self.sizes_bytes, size_bytes), len(self.offsets) - 1))
        (low, high), (size_low, size_high) = self.offsets[at - 1 : at + 1], self.sizes_bytes[at - 1 : at + 1]
        share = (size_bytes - size_low) / max(1, size_high - size_low)
        return Offset(low + round(share * (high - low)))


class LiveQuorum(AbstractContextManager["LiveQuorum", None]):
    """A quorum, reached through some of its nodes; with ``cluster_id`` nodes of another cluster are rejected."""

    def __init__(
        self, controllers: Sequence[Endpoint], cluster_id: str | None = None, security: Security = IN_THE_CLEAR
    ) -> None:
        self._controllers = tuple(controllers)
        self._runner = asyncio.Runner()
        self._observer = Observer(
            controllers,
            cluster_id=cluster_id,
            client_id=CLIENT_ID,
            patience=QUERY_PATIENCE,
            limits=QUERY_LIMITS,
            security=security,
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
        return Extent(
            start_offset=start_offset, end_offset=self._observer.high_watermark, topic=self._observer.topic_name
        )

    def batch_at(self, offset: Offset) -> CommittedBatch:
        """The batch that holds a committed offset, without those after it. Errors: as `extent`; UsageError."""
        self._observer.seek(offset, size_bytes_max=1)
        return self._runner.run(self._observer.__anext__())

    def batch_before(self, offset: Offset, extent: Extent) -> dict[str, int]:
        """Epoch and CRC of the batch that holds the offset before; nothing if the log begins here. Errors: `batch_at`.

        Logs that have a batch of the same epoch and CRC there are equal up to it.
        """
        if not extent.start_offset < offset <= extent.end_offset:
            return {}
        batch = self.batch_at(Offset(offset - 1))
        # A quorum with a snapshot answers a fetch of offset 0 with the batch after the first.
        return {"epoch": batch.epoch, "crc": read_header(batch.data).crc} if batch.base_offset < offset else {}

    def replaced(self, offset: Offset, found: str) -> UsageError:
        """The error for a log that is not the one that was read up to this offset."""
        return UsageError(
            f"{self.name} has another log than the one that was read up to offset {offset}: {found}. If the quorum was "
            "wiped or restored, start over with a new checkpointLocation and a new target, or go on with what it has "
            "now with failOnDataLoss = false"
        )

    def chunks(self, start_offset: Offset, end_offset: Offset) -> Iterator[Buffer]:
        """The batches that hold these committed offsets; 2 to 4 MiB at a time. Nothing else may be asked meanwhile.

        Errors: as `batch_at`; UsageError and ProtocolError if the quorum lost committed records.
        """
        if start_offset >= end_offset:
            return
        parts = self._chunks(start_offset, end_offset)
        found: list[Buffer] = []

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

    def boundaries(self, start_offset: Offset, end_offset: Offset, limit: Limit) -> Sizes:
        """The ends of the batches from an offset on, as far as a limit allows: at least one. Errors: as `batch_at`.

        This fetches them, since nothing else says how large they are.
        """
        most = limit.size_bytes_max
        assert most is not None
        offset_max = end_offset if limit.records_max is None else min(end_offset, start_offset + limit.records_max)
        offsets, sizes = [start_offset], [0]

        async def count() -> None:
            self._observer.seek(start_offset, size_bytes_max=min(most, FETCH_SIZE_BYTES))
            while offsets[-1] < end_offset:
                run = await self._observer.next_run()
                before = sizes[-1] - run.positions[0]
                for last_offset, position in zip(run.last_offsets, run.positions[1:], strict=True):
                    if len(offsets) > 1 and (before + position > most or last_offset >= offset_max):
                        return
                    offsets.append(min(Offset(last_offset + 1), end_offset))
                    sizes.append(before + position)
                    if last_offset + 1 >= end_offset:
                        return

        self._runner.run(count())
        return Sizes(tuple(offsets), tuple(sizes))

    def sample(self, start_offset: Offset, end_offset: Offset) -> Sizes:
        """About how many bytes each part of these offsets has, from one batch of each. Errors: `batch_at`."""
        records = end_offset - start_offset
        parts = min(SAMPLES_MAX, max(1, records // RECORDS_PER_SAMPLE))
        offsets = [Offset(start_offset + records * part // parts) for part in range(parts + 1)]
        sizes, weight = [0], 1
        for low, high in pairwise(offsets) if records > 0 else ():
            batch = self.batch_at(Offset((low + high) // 2))
            weight = max(weight, weight_of(read_header(batch.data)))
            sizes.append(sizes[-1] + len(batch.data) * (high - low) // (batch.end_offset - batch.base_offset))
        return Sizes(tuple(offsets[: len(sizes)]), tuple(sizes), weight)

    async def _chunks(self, start_offset: Offset, end_offset: Offset) -> AsyncGenerator[Buffer]:
        self._observer.seek(start_offset)
        await self._observer.begin()
        assert self._observer.high_watermark is not None
        # A high watermark never falls, so waiting for these records would have no end.
        if end_offset > self._observer.high_watermark:
            raise self.replaced(end_offset, f"the log ends at {self._observer.high_watermark}")
        parts: list[Buffer] = []
        size_bytes = 0
        is_last = False
        while not is_last:
            run = await self._observer.next_run()
            is_last = run.end_offset >= end_offset
            data = run.part(0, bisect_left(run.last_offsets, end_offset - 1) + 1).data if is_last else run.data
            parts.append(data)
            size_bytes += len(data)
            if is_last or size_bytes >= CHUNK_SIZE_BYTES:
                yield b"".join(parts) if len(parts) > 1 else data
                parts, size_bytes = [], 0


def _quorum_of(options: SourceOptions, cluster_id: str | None = None) -> LiveQuorum:
    return LiveQuorum(options.controllers, cluster_id, options.security)


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


TASK_SIZE_BYTES = 32 * 1024 * 1024
"""About how much of the log a task fetches."""


@dataclass(frozen=True)
class LivePartition(InputPartition):
    """The offsets that one task fetches; the end is exclusive."""

    start_offset: Offset
    end_offset: Offset
    cluster_id: str | None
    is_first: bool = True
    topic: str = METADATA_TOPIC_NAME


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A stream of committed records. Its connection to the leader stays open from one micro-batch to the next."""

    def __init__(self, options: SourceOptions, columns: StructType | None = None) -> None:
        """Without ``columns`` it has all. Errors: UsageError for columns that the source does not have."""
        self._options = options
        self._selection = select(columns or columns_for(options), options)
        self._end: Offset | None = None
        self._delay = TriggerDelay(options)
        self._quorum: LiveQuorum | None = None
        self._cluster_id: str | None = None
        self._reached: dict[str, Any] | None = None
        self._sizes = Sizes((Offset(0),), (0,))

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_quorum": None}

    def stop(self) -> None:
        """See `DataSourceStreamReader`."""
        quorum, self._quorum = self._quorum, None
        if quorum is not None:
            quorum.__exit__()

    @contextmanager
    def _connected(self, cluster_id: str | None = None) -> Iterator[LiveQuorum]:
        """The open connection, or a new one; after an error the next call opens another one."""
        if self._quorum is None or (cluster_id is not None and cluster_id != self._cluster_id):
            self.stop()
            self._quorum, self._cluster_id = _quorum_of(self._options, cluster_id), cluster_id
        try:
            yield self._quorum
        except BaseException:
            self.stop()
            raise

    @without_traceback
    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's name, as below
        """See `DataSourceStreamReader`: as the options say."""
        with self._connected() as quorum:
            # First the leader, which then answers for its cluster.
            extent = quorum.extent()
            start = find_start(quorum, extent, self._options)
            before = quorum.batch_before(start, extent)
            self._reached = {"cluster": quorum.find_cluster_id(), "offset": start, "began": start, **before}
            return self._reached

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """See `DataSourceStreamReader`; with both limits Spark gets the records, and `latestOffset` adds the bytes."""
        return default_limit(self._options)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """See `SupportsTriggerAvailableNow`: the stream ends at the current high watermark."""
        with self._connected() as quorum:
            self._end = quorum.extent().end_offset

    @without_traceback
    def latestOffset(self, start: dict[str, Any] | None = None, limit: ReadLimit | None = None) -> dict[str, Any]:  # noqa: N802
        """See `DataSourceStreamReader`; before Spark 4.2 without ``start``, which a restarted query then lacks.

        Errors: ForeignClusterError for a checkpoint of another quorum; UsageError if the log starts after it, ends
        before it, or has another batch there.
        """
        begin_at = start or self._reached
        self._reached = self._now() if begin_at is None else self._after(begin_at, limit)
        return self._reached

    def _now(self) -> dict[str, Any]:
        with self._connected() as quorum:
            extent = quorum.extent()
            end = min(extent.end_offset, find_end(quorum, extent, self._options.end))
            return {"cluster": quorum.find_cluster_id(), "offset": end, **quorum.batch_before(end, extent)}

    def _after(self, start: dict[str, Any], limit: ReadLimit | None) -> dict[str, Any]:
        records, size_bytes = records_and_bytes(limit, self._options)
        with self._connected(start["cluster"]) as quorum:
            extent = quorum.extent()
            begin = self._begin(quorum, extent, start)
            most = min(extent.end_offset, find_end(quorum, extent, self._options.end))
            most = most if self._end is None else min(most, self._end)
            limits = Limit(records_max=records, size_bytes_max=size_bytes)
            end = max(begin, self._limited(quorum, begin, most, limits) if begin < most else begin)
            if end == start["offset"] or (self._end is None and self._delay.holds_back(end - begin)):
                return start
            is_first = start.get("began") == start["offset"]
            began = {f"began_{name}": start[name] for name in ("epoch", "crc") if is_first and name in start}
            kept = {name: value for name, value in start.items() if name not in ("epoch", "crc")}
            cluster_id = start["cluster"] or quorum.find_cluster_id()
            return kept | began | {"cluster": cluster_id, "offset": end} | quorum.batch_before(end, extent)

    @without_traceback
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """See `DataSourceStreamReader`. Errors: as `latestOffset`."""
        self._reached = end
        is_first = start.get("began") == start["offset"]
        begin = {"offset": end.get("began", start["offset"])} if is_first else start
        with self._connected(end["cluster"]) as quorum:
            extent = quorum.extent()
            if (problem := difference(quorum, extent, end)) is not None:
                if self._options.fails_on_data_loss:
                    raise quorum.replaced(end["offset"], problem)
                return []
            low, high = self._begin(quorum, extent, begin), end["offset"]
            known = self._sizes if (self._sizes.offsets[0], self._sizes.offsets[-1]) == (low, high) else None
            sizes = known or quorum.sample(low, high)
        return splits_of(sizes, end["cluster"], tasks_min=self._options.tasks_min, topic=extent.topic)

    @rows_without_traceback
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """See `DataSourceStreamReader`. Errors: as `LiveQuorum.chunks`."""
        return fetch_rows(partition, self._options, self._selection)

    @without_traceback
    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """See `DataSourceStreamReader`: the high watermark."""
        with self._connected() as quorum:
            return {"offset": quorum.extent().end_offset}

    def _begin(self, quorum: LiveQuorum, extent: Extent, position: dict[str, Any]) -> Offset:
        """Where to go on from a position of the stream; the log start if the log is another one and that is allowed.

        Errors: UsageError for another log; as `there`.
        """
        problem = difference(quorum, extent, position)
        if problem is None:
            return there(position["offset"], extent, self._options)
        if self._options.fails_on_data_loss:
            raise quorum.replaced(position["offset"], problem)
        return extent.start_offset

    def _limited(self, quorum: LiveQuorum, begin: Offset, most: Offset, limit: Limit) -> Offset:
        """The end of a micro-batch that begins there: the end of a batch, at most ``most``."""
        end = most if limit.records_max is None else Offset(min(most, begin + limit.records_max))
        if limit.size_bytes_max is None:
            return aligned(quorum, begin, end, most)
        if limit.size_bytes_max <= COUNTED_SIZE_BYTES_MAX:
            self._sizes = quorum.boundaries(begin, most, limit)
            return self._sizes.offsets[-1]
        sizes = quorum.sample(begin, end)
        if sizes.total_bytes > limit.size_bytes_max:
            end = max(Offset(begin + 1), sizes.offset_at(limit.size_bytes_max))
        return aligned(quorum, begin, end, most)


def difference(quorum: LiveQuorum, extent: Extent, position: dict[str, Any]) -> str | None:
    """How the log differs from the one that a stream has read up to this position; None if it is the same.

    Positions of older versions of pykraft have neither epoch nor CRC. Errors: as `LiveQuorum.batch_at`.
    """
    offset = position["offset"]
    if offset > extent.end_offset:
        return f"the log ends at {extent.end_offset}"
    known = {name: position[name] for name in ("epoch", "crc") if name in position}
    found = quorum.batch_before(offset, extent) if known else {}
    if not found or found == known:
        return None
    return f"the batch before it has {found}, where {known} was read"


def plan_query(options: SourceOptions, bounds: Bounds) -> list[LivePartition]:
    """The splits of a query. Errors: QuorumUnavailableError; UsageError for an offset outside of the log."""
    with _quorum_of(options) as quorum:
        extent = quorum.extent()
        cluster_id = quorum.find_cluster_id()
        start = max(find_start(quorum, extent, options), bounds.offset_min)
        end = min(find_end(quorum, extent, options.end), bounds.offset_end, extent.end_offset)
        sizes = quorum.sample(start, end)
    return splits_of(sizes, cluster_id, tasks_min=options.tasks_min, topic=extent.topic)


def find_start(quorum: LiveQuorum, extent: Extent, options: SourceOptions) -> Offset:
    """The start offset. Errors: UsageError for an offset outside of the log, unless the loss of data is allowed."""
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
    """This offset, or if that may be, the nearest that the log has.

    Errors: UsageError if the log no longer has it, or does not have it yet.
    """
    if options.fails_on_data_loss and offset < extent.start_offset:
        raise UsageError(
            f"offset {offset} is no longer in the log, which begins at {extent.start_offset}: earlier records are only "
            "in a snapshot, which this source does not read. Start at earliest; a stream also needs a new checkpoint"
        )
    if options.fails_on_data_loss and offset > extent.end_offset:
        raise UsageError(
            f"offset {offset} is above the end of the log, whose committed records end at {extent.end_offset}: start "
            "at latest, or at an offset up to there"
        )
    return max(extent.start_offset, min(offset, extent.end_offset))


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
    sizes: Sizes, cluster_id: str | None, *, tasks_min: int | None = None, topic: str = METADATA_TOPIC_NAME
) -> list[LivePartition]:
    """Split the offsets among tasks, at least so many if there are records for each.

    All have about as many bytes: a small last one would leave other cores without work.
    """
    start, end = sizes.offsets[0], sizes.offsets[-1]
    records = end - start
    tasks = min(records, max(1, round(sizes.total_bytes * sizes.weight / TASK_SIZE_BYTES), tasks_min or 1))
    edges = sorted({start, *(sizes.offset_at(sizes.total_bytes * task / tasks) for task in range(1, tasks)), end})
    if len(edges) <= min(records, tasks_min or 1):
        # A few records have most of the bytes.
        tasks = min(records, tasks_min or 1)
        edges = [Offset(start + records * task // tasks) for task in range(tasks + 1)]
    return [LivePartition(low, high, cluster_id, is_first=low == start, topic=topic) for low, high in pairwise(edges)]


def fetch_rows(partition: InputPartition, options: SourceOptions, selection: Selection) -> Iterator[pa.RecordBatch]:
    """The rows of one split. If two splits share a batch, each has its own records; as a batch it is in the first."""
    if not isinstance(partition, LivePartition):
        return  # without partitions, Spark reads an empty placeholder
    with _quorum_of(options, partition.cluster_id) as quorum:
        origin = Origin(
            path=quorum.name,
            topic=partition.topic,
            start_offset=partition.start_offset,
            end_offset=partition.end_offset,
        )
        # The observer has compared the CRCs.
        for data in quorum.chunks(partition.start_offset, partition.end_offset):
            if options.rows == "batches":
                own = data if partition.is_first else _from(data, partition.start_offset)
                yield from batches_of(origin, own, are_checked=True, selection=selection)
            else:
                yield from records_of(origin, data, are_checked=True, selection=selection)


def _from(data: Buffer, offset: Offset) -> Buffer:
    """Whole batches without the one that starts below this offset; only the first can."""
    header = read_header(data)
    return data[header.size_bytes :] if header.base_offset < offset else data
