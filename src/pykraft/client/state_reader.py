"""The state in a snapshot as a listener gets it: piece by piece, read and decoded off the loop.

Invariant: however large the snapshot is, the application's loop never waits for the disk, and memory holds about one
piece; damaged records are never returned. The caller decides where files are read: in the node's bulk lane, or in any
thread.

Source: Kafka's ``SnapshotReader`` and ``RecordsSnapshotReader``, which read on the IO thread.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, Generic, NoReturn, TypeAlias, TypeVar

from pykraft.errors import PykraftError, UsageError
from pykraft.snapshot.head import ContainsLog
from pykraft.snapshot.reader import SnapshotBatch, SnapshotReader

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
        batches = iter(self._reader)
        while True:
            self._is_reading = True
            piece = await self._elsewhere(lambda: _piece(batches))
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


def _piece(batches: Iterator[SnapshotBatch[T]]) -> SnapshotPiece[T] | PykraftError:
    """The next batches, none at the end; or the error that prevents reading them."""
    piece: SnapshotPiece[T] = []
    left_bytes = PIECE_SIZE_BYTES
    try:
        for batch in batches:
            piece.append(batch)
            left_bytes -= batch.size_bytes
            if left_bytes <= 0:
                break
    except PykraftError as error:
        return error
    return piece
