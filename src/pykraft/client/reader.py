"""Committed batches and the state in a snapshot, as a listener sees them.

A batch is decoded at most once, and not at all if nobody reads it. A snapshot is read piece by piece: the application's
loop never waits for the disk, memory holds about one piece, and damaged records are never returned. The caller decides
where files are read: in the node's bulk lane, or in any thread.

Source: Kafka's ``BatchReader``, ``Batch``, ``SnapshotReader`` and ``RecordsSnapshotReader``.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from itertools import islice
from typing import Final, Generic, NoReturn, TypeAlias, TypeVar, cast

from pykraft.client.serde import Serde, bytes_serde
from pykraft.errors import DeserializeError, PykraftError, SnapshotFailedError, StorageError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.host.snapshots.files import unless_wrong
from pykraft.protocol.records import decode_control
from pykraft.snapshot.head import ContainsLog, SnapshotBatch, SnapshotReader
from pykraft.types import ControlRecord, Epoch, Offset

T = TypeVar("T")
PIECE_SIZE_BYTES: Final = 1024 * 1024
"""About this many bytes of batches are read at a time, at least one batch."""


SnapshotPiece: TypeAlias = list[SnapshotBatch[T]]
Elsewhere: TypeAlias = Callable[[Callable[[], SnapshotPiece[T] | PykraftError]], Awaitable[SnapshotPiece[T]]]
"""Runs a read off the loop, and returns or raises its result."""


async def read_in_a_thread(read: Callable[[], SnapshotPiece[T] | PykraftError]) -> SnapshotPiece[T]:
    """Run a read in a thread, for a client without a node."""
    piece = await asyncio.to_thread(read)
    if isinstance(piece, PykraftError):
        raise piece
    return piece


class StateReader(ContainsLog, Generic[T]):
    """``async for batch in reader``, once or more often; closed when the listener's call is done."""

    def __init__(self, elsewhere: Elsewhere[T], reader: SnapshotReader[T]) -> None:
        super().__init__(reader.snapshot_id)
        self._elsewhere = elsewhere
        self._reader: SnapshotReader[T] | None = reader
        self._is_reading = False
        self.last_contained_log_timestamp: int = reader.last_contained_log_timestamp
        """Wall ms of the last record that the snapshot contains."""
        self.size_bytes: int = reader.size_bytes
        """Size of the whole file."""

    async def __aiter__(self) -> AsyncIterator[SnapshotBatch[T]]:
        """All batches in order, including header and footer, which have no records of the application.

        Errors: CorruptionError, also when the footer is missing; DeserializeError; StorageError; UsageError when the
        listener's call is over; NotRunningError.
        """
        if self._reader is None:
            raise UsageError("the reader is closed: its batches are available only during the call of the listener")
        pieces = _Pieces(self._reader)
        while True:
            self._is_reading = True
            piece = await self._elsewhere(pieces.next)
            self._is_reading = False
            if not piece:
                return
            for batch in piece:
                yield batch

    def __iter__(self) -> NoReturn:
        """Errors: UsageError."""
        raise UsageError("read a snapshot with `async for`: the loop then never waits for the disk")

    def close(self) -> None:
        """Close the file; closing again does nothing."""
        # A cancelled call may still be reading a piece: then the file closes when the read drops its reference.
        if self._reader is not None and not self._is_reading:
            self._reader.close()
        self._reader = None


class _Pieces(Generic[T]):
    """A snapshot from its begin on; it may go on where the disk could not read."""

    def __init__(self, reader: SnapshotReader[T]) -> None:
        self._reader = reader
        self._batches = iter(reader)
        self._count = 0

    def next(self) -> SnapshotPiece[T] | PykraftError:
        """The next batches, none at the end; or the error that prevents reading them for good.

        Errors: StorageError when the disk cannot read them now; the next call tries again.
        """
        piece: SnapshotPiece[T] = []
        left_bytes = PIECE_SIZE_BYTES
        try:
            for batch in self._batches:
                piece.append(batch)
                left_bytes -= batch.size_bytes
                if left_bytes <= 0:
                    break
        except StorageError as error:
            if not isinstance(unless_wrong(error), SnapshotFailedError):
                return error
            self._batches = islice(self._reader, self._count, None)  # an iterator ends with its first error
            raise
        except PykraftError as error:
            return error
        self._count += len(piece)
        return piece


LOG_START: Final = Offset(0)


class Batch(Generic[T]):
    """Records that were appended together: all of them are committed. Offsets are integers from 0 on."""

    __slots__ = ("_committed", "_records", "_serde", "base_offset")

    def __init__(self, committed: CommittedBatch, serde: Serde[T], from_offset: Offset = LOG_START) -> None:
        """Records before ``from_offset`` are skipped."""
        self._committed = committed
        self._serde = serde
        self._records: Sequence[T] | None = None
        self.base_offset: Offset = max(committed.base_offset, from_offset)
        """Offset of the first record."""

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record (inclusive)."""
        return Offset(self._committed.end_offset - 1)

    @property
    def epoch(self) -> Epoch:
        """Epoch of the leader that appended it."""
        return self._committed.epoch

    @property
    def append_timestamp_ms(self) -> int:
        """When the leader appended the batch: wall ms since 1970, by the leader's clock."""
        return self._committed.timestamp_ms

    @property
    def size_bytes(self) -> int:
        """Size of the whole batch in the log."""
        return len(self._committed.data)

    @property
    def records(self) -> Sequence[T]:
        """The records, from ``base_offset`` on; none for a control batch. Decoded on first use.

        Errors: DeserializeError; ProtocolError for a batch that is not KRaft's.
        """
        if self._records is None:
            self._records = self._decoded()
        return self._records

    @property
    def control_records(self) -> Sequence[ControlRecord]:
        """Raft's own records, such as `pykraft.types.LeaderChange`; none for the application's batches."""
        return decode_control(self._committed.data) if self._committed.is_control else ()

    def __repr__(self) -> str:
        return f"<Batch {self.base_offset}-{self.last_offset} of epoch {self.epoch}, {self.size_bytes} bytes>"

    def _decoded(self) -> Sequence[T]:
        values = self._committed.values()[self.base_offset - self._committed.base_offset :]
        if self._serde is bytes_serde:
            return cast("Sequence[T]", values)
        deserialize = self._serde.deserialize
        records: list[T] = []
        try:
            records += map(deserialize, values)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            raise DeserializeError(self.base_offset + len(records), self.epoch, problem) from error
        return records


class Reader(Generic[T]):
    """Consecutive batches for one call of a listener; it can be iterated more than once.

    It is closed when the call is done: copy what you need later. Batches that were not read count as handled, too.
    """

    __slots__ = ("_batches",)

    def __init__(self, batches: Sequence[Batch[T]]) -> None:
        """``batches`` has at least one batch."""
        self._batches: Sequence[Batch[T]] = batches

    @property
    def base_offset(self) -> Offset:
        """Offset of the first record. Errors: UsageError when it is closed."""
        return self._open()[0].base_offset

    @property
    def last_offset(self) -> Offset:
        """Offset of the last record (inclusive); an application that stores it can resume after it.

        Errors: UsageError when it is closed.
        """
        return self._open()[-1].last_offset

    def __iter__(self) -> Iterator[Batch[T]]:
        for at in range(len(self._open())):
            yield self._open()[at]

    def close(self) -> None:
        """Drop the batches; closing again does nothing."""
        self._batches = ()

    def _open(self) -> Sequence[Batch[T]]:
        if not self._batches:
            raise UsageError("the reader is closed: its batches are available only during the call of the listener")
        return self._batches
