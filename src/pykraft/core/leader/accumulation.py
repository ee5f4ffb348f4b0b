"""Proposals that a leader has accepted and has not yet handed to storage.

Proposals gather in one open batch until the linger time is over or the batch is full, so that one fsync serves many of
them. All records of one proposal stay in one batch, which makes them atomic. A batch is filled up to the size of one
Fetch answer; only a single larger proposal may exceed it. The number and the total size of batches that wait for
storage are bounded.

A prepared proposal has its offset, but it and all later ones stay here until `schedule`, so that several batches become
visible together.

Invariant: offsets are dense: waiting and open batches directly follow the log end.

Source: KIP-595 (``quorum.append.linger.ms``); Kafka ``BatchAccumulator``.
"""

from collections import deque

from pykraft.core.effects import PlannedBatch
from pykraft.types import ControlRecord, Epoch, Instant, Offset

BATCH_HEADER_SIZE_BYTES = 61


class Accumulation:
    """Open and waiting batches of one leader's epoch."""

    def __init__(
        self,
        *,
        epoch: Epoch,
        base_offset: Offset,
        linger_ms: int,
        size_bytes_max: int,
        waiting_max: int,
        fill_size_bytes: int | None = None,
    ) -> None:
        """At most ``waiting_max`` batches of ``size_bytes_max`` wait, or proportionally more of ``fill_size_bytes``."""
        fill_size_bytes = min(size_bytes_max, fill_size_bytes or size_bytes_max)
        self.next_offset = base_offset
        self._epoch = epoch
        self._linger_ms = linger_ms
        self._size_bytes_max = size_bytes_max - BATCH_HEADER_SIZE_BYTES
        self._fill_size_bytes = fill_size_bytes - BATCH_HEADER_SIZE_BYTES
        self._waiting_max = waiting_max * (size_bytes_max // fill_size_bytes)
        self._waiting_size_bytes_max = waiting_max * self._size_bytes_max
        self._waiting_size_bytes = 0
        self._waiting: deque[tuple[PlannedBatch, int]] = deque()
        self._handles: list[int] = []
        self._base_offset = base_offset
        self._size_bytes = 0
        self._begun: Instant | None = None
        self.held_from: Offset | None = None
        """Offset of the first prepared record that is not scheduled; None without one."""

    def fits(self, size_bytes: int) -> bool:
        """True when a proposal of this size fits into one batch."""
        return size_bytes <= self._size_bytes_max

    def add(
        self,
        *,
        handle: int,
        count: int,
        size_bytes: int,
        now: Instant,
        is_prepared: bool = False,
        is_batch: bool = False,
    ) -> Offset | None:
        """Accept a proposal that `fits`; returns its base offset, or None when too many batches wait.

        A prepared proposal stays until `schedule`. Any other proposal schedules all prepared ones before it. With
        ``is_batch`` it is a batch of its own, which does not linger.
        """
        assert self.fits(size_bytes)
        assert count >= 1
        begins_hold = is_prepared and self.held_from is None
        # Close the open batch if it is full. Close it also before the first prepared proposal: the batch before it may
        # be drained now, the prepared one may not.
        if self._handles and (begins_hold or is_batch or self._size_bytes + size_bytes > self._fill_size_bytes):
            self._complete()
        if not self._handles:
            if len(self._waiting) >= self._waiting_max or self._waiting_size_bytes >= self._waiting_size_bytes_max:
                return None
            self._begun = now
            self._base_offset = self.next_offset
        base_offset = self.next_offset
        if begins_hold:
            self.held_from = base_offset
        elif not is_prepared:
            self.held_from = None
        self._handles.append(handle)
        self._size_bytes += size_bytes
        self.next_offset = Offset(base_offset + count)
        if is_batch:
            # A client encoded it, perhaps compressed: nothing can be added to it.
            self._complete()
        return base_offset

    def add_control(self, records: tuple[ControlRecord, ...], now: Instant) -> Offset:
        """Add a batch of the leader's own control records after all accepted ones; returns its base offset."""
        self.flush()
        base_offset = self.next_offset
        self.next_offset = Offset(base_offset + len(records))
        batch = PlannedBatch(
            base_offset=base_offset,
            end_offset=self.next_offset,
            epoch=self._epoch,
            timestamp_ms=now.wall_ms,
            control=records,
        )
        self._waiting.append((batch, 0))
        return base_offset

    def schedule(self) -> None:
        """All prepared proposals may be drained."""
        self.held_from = None

    def flush(self) -> None:
        """All accepted proposals may be drained now, without lingering."""
        self.schedule()
        if self._handles:
            self._complete()

    @property
    def is_empty(self) -> bool:
        """True when all accepted proposals are in the log."""
        return not self._handles and not self._waiting

    @property
    def waiting_count(self) -> int:
        """Number of completed batches that are not in the log yet."""
        return len(self._waiting)

    def due_ms(self) -> int | None:
        """When a batch is due (mono ms; the past when a completed batch waits), or None."""
        if self._waiting and self._is_free(self._waiting[0][0]):
            return 0
        return self._begun.mono_ms + self._linger_ms if self._begun and self.held_from is None else None

    def drain(self) -> tuple[PlannedBatch, ...]:
        """All batches in order, except prepared ones."""
        batches: list[PlannedBatch] = []
        while batch := self.drain_one():
            batches.append(batch)
        return tuple(batches)

    def drain_one(self) -> PlannedBatch | None:
        """The oldest batch, unless it is only prepared."""
        if not self._waiting and self._handles and self.held_from is None:
            self._complete()
        if not self._waiting or not self._is_free(self._waiting[0][0]):
            return None
        batch, size_bytes = self._waiting.popleft()
        self._waiting_size_bytes -= size_bytes
        return batch

    def close(self) -> tuple[int, ...]:
        """End of leadership: the handles of all proposals that never reached the log."""
        self.schedule()
        # Prepared proposals have handles, too, so release them first.
        return tuple(handle for batch in self.drain() for handle in batch.handles)

    def _is_free(self, batch: PlannedBatch) -> bool:
        return self.held_from is None or batch.end_offset <= self.held_from

    def _complete(self) -> None:
        assert self._begun is not None
        batch = PlannedBatch(
            base_offset=self._base_offset,
            end_offset=self.next_offset,
            epoch=self._epoch,
            timestamp_ms=self._begun.wall_ms,
            handles=tuple(self._handles),
        )
        self._waiting.append((batch, self._size_bytes))
        self._waiting_size_bytes += self._size_bytes
        self._handles = []
        self._size_bytes = 0
        self._begun = None
