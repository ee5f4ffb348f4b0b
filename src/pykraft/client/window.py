"""Batches that an observer fetched and has not yet given out: from the end of what it gave out to the end of its log.

Owns these batches and the last epoch before them. Invariant: what is given out is below the high watermark, continuous,
and of epochs that never go back; each batch had the right CRC. A batch that breaks this is not taken, whoever sent it.
What is not yet committed may be dropped at any time, since a leader may never have had it: it is fetched again. It
refuses to know who leads and what a batch holds.

Source: KIP-595 §Fetch; KAFKA-18723 (a replica must check what it fetched).
"""

from __future__ import annotations

from collections import deque

from pykraft.host.delivery import CommittedBatch
from pykraft.protocol.batch import BatchHeader
from pykraft.types import Buffer, Epoch, Offset


class Window:
    """Begins at ``next_offset``, which may lie within a batch: that batch is then the first one, whole.

    Not when ``last_epoch`` is given, that of the record before it: then a batch begins there.
    """

    def __init__(self, next_offset: Offset, last_epoch: Epoch | None = None) -> None:
        self.next_offset = next_offset
        """Where what is given out next begins."""
        self.high_watermark: Offset | None = None
        """All below is committed for ever; None until a leader said so."""
        self._last_epoch = last_epoch
        self._held: deque[tuple[BatchHeader, Buffer]] = deque()
        self._held_size_bytes = 0

    @property
    def end_offset(self) -> Offset:
        """Where the next batch to fetch begins."""
        return self._held[-1][0].end_offset if self._held else self.next_offset

    @property
    def end_epoch(self) -> Epoch | None:
        """Epoch of the batch before `end_offset`; None before the first batch."""
        return self._held[-1][0].epoch if self._held else self._last_epoch

    @property
    def held_size_bytes(self) -> int:
        """Bytes that were fetched and not given out."""
        return self._held_size_bytes

    def add(self, header: BatchHeader, data: Buffer, *, leader_epoch: Epoch) -> str | None:
        """Take the next batch, or say why it cannot be the next one."""
        expected = self.end_offset
        if header.base_offset != expected:
            is_first = self.end_epoch is None and header.base_offset < expected < header.end_offset
            if not is_first:
                return f"a batch with offsets {header.base_offset} to {header.last_offset} where {expected} comes next"
        if not (self.end_epoch or 0) <= header.epoch <= leader_epoch:
            return (
                f"the batch at offset {header.base_offset} is of epoch {header.epoch}, "
                f"after {self.end_epoch or 0}, from the leader of epoch {leader_epoch}"
            )
        self._held.append((header, data))
        self._held_size_bytes += header.size_bytes
        return None

    def commit_to(self, high_watermark: Offset) -> None:
        """All below is committed; a leader that knows less changes nothing."""
        self.high_watermark = Offset(max(self.high_watermark or 0, high_watermark))

    def drop_held(self) -> bool:
        """Forget what was not given out; False when there was nothing."""
        had_some = bool(self._held)
        self._held.clear()
        self._held_size_bytes = 0
        return had_some

    def take(self) -> CommittedBatch | None:
        """The next batch if it is committed."""
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
