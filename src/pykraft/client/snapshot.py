"""A snapshot that the application writes of its own state, record by record.

Invariant: no call blocks the loop: serializing and writing run where files are read, one call at a time. An unfinished
snapshot leaves no file.

Source: Kafka's ``SnapshotWriter``.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from functools import partial
from types import TracebackType
from typing import Final, Generic, Self, TypeVar

from pykraft.client.arguments import epoch_number, whole_number
from pykraft.client.life import HostAccess, OnAnswer
from pykraft.client.serde import Serde
from pykraft.errors import NotRunningError
from pykraft.host.host import Host
from pykraft.host.snapshots.creation import NewSnapshot
from pykraft.record_list import check_records
from pykraft.types import Epoch, Offset, OffsetAndEpoch

T = TypeVar("T")
PIECE_SIZE_BYTES_MAX: Final = 256 * 1024
"""Records of bytes that are taken from an iterable at a time, unless they are too many."""


async def begin_snapshot(node: HostAccess, serde: Serde[T], offset: int, epoch: int) -> Snapshot[T] | None:
    """See `pykraft.client.node.Node.create_snapshot`."""
    whole_number("offset", offset, least=0)
    snapshot_id = OffsetAndEpoch(Offset(offset), Epoch(epoch_number(epoch)))
    taken: NewSnapshot | None = await node.ask(lambda host, answer: host.create_snapshot(snapshot_id, serde, answer))
    return None if taken is None else Snapshot(node, taken)


class Snapshot(Generic[T]):
    """Created by `Node.create_snapshot`: call `append` any number of times, then `freeze`. ``async with`` closes it."""

    def __init__(self, node: HostAccess, taken: NewSnapshot) -> None:
        self._node = node
        self._taken = taken
        self.is_frozen = False
        """True once the snapshot counts."""

    @property
    def snapshot_id(self) -> OffsetAndEpoch:
        """The end offset (exclusive) of the snapshot, and the epoch of the record before it."""
        return self._taken.snapshot_id

    async def append(self, records: Iterable[T] | AsyncIterable[T]) -> None:
        """Add records, in the order in which a listener will get them; returns when they are written.

        They are taken a few at a time, so a generator may produce any number of them.

        Errors: UsageError for a single record or a set. After any other error nothing more is written: UsageError after
        `freeze`, `close` or an error; RecordBatchTooLargeError for a record above 8 MiB; SnapshotTooLargeError;
        SnapshotFailedError when the disk is full or fails, after which the node goes on; NotRunningError; any exception
        of the serde.
        """
        check_records(records, is_async_allowed=True)
        async for piece in _pieces(records, self._taken.piece_records_max):
            await self._node.ask(partial(self._append, piece))

    async def freeze(self) -> int:
        """Make the snapshot count; returns its size in bytes.

        Errors: as `append`; OutcomeUnknownError when the node ended meanwhile: the snapshot may count.
        """
        doubt = f"the snapshot at offset {self.snapshot_id.offset} may or may not count"
        size_bytes: int = await self._node.ask(lambda _, answer: self._taken.freeze(answer), doubt=doubt)
        self.is_frozen = True
        return size_bytes

    async def close(self) -> None:
        """Discard the snapshot, unless it is frozen; closing twice does nothing. Errors: NotRunningError."""

        def act(_: Host, answer: OnAnswer[None]) -> None:
            self._taken.close()
            answer(None)

        await self._node.ask(act)

    def _append(self, piece: list[T], _: Host, answer: OnAnswer[None]) -> None:
        self._taken.append(piece, answer)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except NotRunningError:  # the next start removes what the node left
            return


async def _pieces(records: Iterable[T] | AsyncIterable[T], records_max: int) -> AsyncIterator[list[T]]:
    piece: list[T] = []
    size_bytes = 0
    async for record in _each(records):
        piece.append(record)
        if isinstance(record, bytes):
            size_bytes += len(record)
        if len(piece) == records_max or size_bytes >= PIECE_SIZE_BYTES_MAX:
            yield piece
            piece, size_bytes = [], 0
    yield piece


async def _each(records: Iterable[T] | AsyncIterable[T]) -> AsyncIterator[T]:
    if isinstance(records, AsyncIterable):
        async for record in records:
            yield record
    else:
        for record in records:
            yield record
