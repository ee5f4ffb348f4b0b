"""Committed batches as a listener sees them, decoded on first use.

This module decodes a batch into the application's records. Invariant: a batch is decoded at most once, and not at all
if nobody reads it; an error for a record that cannot be decoded names its offset.

Source: Kafka's ``BatchReader`` and ``Batch``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Generic, TypeVar, cast

from pykraft.client.serde import Serde, bytes_serde
from pykraft.errors import DeserializeError, UsageError
from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.records import decode_control
from pykraft.types import ControlRecord, Epoch, Offset

T = TypeVar("T")
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
