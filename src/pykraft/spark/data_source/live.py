"""A blocking interface to a live quorum: its committed offsets, and the batches of a range of them.

Calls within one block share an event loop of their own and one connection to the leader, so it works on the driver and
in any task. Invariant: it only reads committed records, whoever leads meanwhile; it returns whole batches in order and
holds at most one chunk of them.

Source: KIP-595 §Fetch (an observer without an id); Spark's Kafka source (``KafkaOffsetReader``).
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from pykraft.client.remote.admin import Admin
from pykraft.client.remote.leader_search import Patience
from pykraft.client.remote.observer import FetchLimits, Observer, Start
from pykraft.errors import QuorumUnavailableError
from pykraft.host.delivery import CommittedBatch
from pykraft.types import Buffer, Endpoint, Offset

CHUNK_SIZE_BYTES = 4 * 1024 * 1024
PATIENCE = Patience(timeout_ms=60_000)
"""A query should survive a fail-over, which takes some seconds."""
DESCRIBE_LIMITS = Patience(timeout_ms=5_000)
FETCH_LIMITS = FetchLimits(size_bytes_max=4 * 1024 * 1024, held_size_bytes_max=16 * 1024 * 1024)
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
        self._cluster_id = cluster_id
        self._runner = asyncio.Runner()
        self._observer = Observer(
            controllers, cluster_id=cluster_id, client_id=CLIENT_ID, patience=PATIENCE, limits=FETCH_LIMITS
        )

    def __exit__(self, *_: object) -> None:
        with self._runner:
            self._runner.run(self._observer.close())

    @property
    def name(self) -> str:
        return f"the quorum at {','.join(map(str, self._controllers))}"

    def find_cluster_id(self) -> str | None:
        """Its cluster id; None if its nodes do not report it (Kafka's TestRaftServer). Errors: ForeignClusterError."""

        async def ask() -> str | None:
            async with Admin(
                self._controllers, cluster_id=self._cluster_id, client_id=CLIENT_ID, patience=DESCRIBE_LIMITS
            ) as admin:
                try:
                    return (await admin.describe_quorum()).cluster_id
                except QuorumUnavailableError:
                    return None

        return self._runner.run(ask())

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
