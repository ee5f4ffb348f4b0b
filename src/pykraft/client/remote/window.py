"""Batches that an observer has fetched but not returned yet, up to the end of its log.

Invariant: returned batches are below the high watermark, without a gap, and their epochs never go back; each batch had
the right CRC. A batch that breaks this is refused, whoever sent it. Batches that are not yet committed may be dropped
at any time, since a new leader may never have had them; they are fetched again.

Source: KIP-595 §Fetch; KAFKA-18723 (a replica must check what it fetched).
"""

from __future__ import annotations

from collections import deque

from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.batch import BatchHeader
from pykraft.types import Buffer, Epoch, Offset


class Window:
    """Begins at ``next_offset``. If that is within a batch, the whole batch is the first one.

    With ``last_epoch``, the epoch of the record before it, a batch must begin exactly there.
    """

    def __init__(self, next_offset: Offset, last_epoch: Epoch | None = None) -> None:
        self.next_offset = next_offset
        """Offset of the next batch to return."""
        self.high_watermark: Offset | None = None
        """Everything below is committed; None until a leader told it."""
        self._last_epoch = last_epoch
        self._held: deque[tuple[BatchHeader, Buffer]] = deque()
        self._held_size_bytes = 0

    @property
    def end_offset(self) -> Offset:
        """Offset of the next batch to fetch."""
        return self._held[-1][0].end_offset if self._held else self.next_offset

    @property
    def end_epoch(self) -> Epoch | None:
        """Epoch of the batch before `end_offset`; None before the first batch."""
        return self._held[-1][0].epoch if self._held else self._last_epoch

    @property
    def held_size_bytes(self) -> int:
        """Bytes that were fetched but not returned."""
        return self._held_size_bytes

    def add(self, header: BatchHeader, data: Buffer, *, leader_epoch: Epoch) -> str | None:
        """Take the next batch; returns why it cannot be the next one, or None."""
        expected = self.end_offset
        if header.base_offset != expected:
            is_first = self.end_epoch is None and header.base_offset < expected < header.end_offset
            if not is_first:
                return f"a batch with offsets {header.base_offset} to {header.last_offset} where {expected} comes next"
        # No CRC covers the epoch, so check it against its neighbours and the leader's.
        if not (self.end_epoch or 0) <= header.epoch <= leader_epoch:
            return (
                f"the batch at offset {header.base_offset} is of epoch {header.epoch}, "
                f"after {self.end_epoch or 0}, from the leader of epoch {leader_epoch}"
            )
        self._held.append((header, data))
        self._held_size_bytes += header.size_bytes
        return None

    def commit_to(self, high_watermark: Offset) -> None:
        """Raise the high watermark; a new leader may know a lower one, which changes nothing."""
        self.high_watermark = Offset(max(self.high_watermark or 0, high_watermark))

    def drop_held(self) -> bool:
        """Drop the batches that were not returned; False when there were none."""
        had_some = bool(self._held)
        self._held.clear()
        self._held_size_bytes = 0
        return had_some

    def take(self) -> CommittedBatch | None:
        """The next batch, if it is committed."""
        if not self._held or self.high_watermark is None:
            return None
        header, data = self._held[0]
        if header.end_offset > self.high_watermark:
            return None
        self._held.popleft()
        self._held_size_bytes -= header.size_bytes
        self.next_offset, self._last_epoch = header.end_offset, header.epoch
        return CommittedBatch(
            base_offset=header.base_offset,
            end_offset=header.end_offset,
            epoch=header.epoch,
            timestamp_ms=header.max_timestamp,
            is_control=header.is_control,
            data=data,
        )
