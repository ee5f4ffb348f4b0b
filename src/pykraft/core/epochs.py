"""The leader-epoch cache: the start offset of each epoch in this log.

Invariant: entries are strictly ascending in epoch and in start offset. The cache answers the question with which two
logs find their last common record: where does an epoch end here?

Source: KIP-101, KIP-595 §Log reconciliation; Kafka ``LeaderEpochFileCache``.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from pykraft.types import Epoch, EpochStart, Offset, OffsetAndEpoch


class EpochCache:
    """Epoch starts of one log, in memory."""

    def __init__(self, entries: Iterable[EpochStart] = ()) -> None:
        self._entries: list[EpochStart] = []
        self._shown: tuple[EpochStart, ...] | None = None
        """The last result of `entries`; None once it has changed."""
        for entry in entries:
            self.assign(entry.epoch, entry.start_offset)

    @property
    def entries(self) -> tuple[EpochStart, ...]:
        # Copy only after a change: there may be a hundred thousand entries.
        if self._shown is None:
            self._shown = tuple(self._entries)
        return self._shown

    @property
    def latest(self) -> EpochStart | None:
        return self._entries[-1] if self._entries else None

    def assign(self, epoch: Epoch, start_offset: Offset) -> None:
        """Let ``epoch`` start at ``start_offset`` and drop entries that contradict this.

        Assigning the latest epoch again changes nothing.
        """
        if self._entries and self._entries[-1].epoch == epoch:
            return
        self._shown = None
        # An epoch that begins at the same offset has no record: its leader wrote nothing.
        while self._entries and (self._entries[-1].epoch >= epoch or self._entries[-1].start_offset >= start_offset):
            self._entries.pop()
        self._entries.append(EpochStart(epoch=epoch, start_offset=start_offset))

    def epoch_at(self, offset: Offset) -> Epoch | None:
        """Epoch of the record at this offset; None before the first entry."""
        return epoch_at(self._entries, offset)

    def truncate_to(self, end_offset: Offset) -> None:
        """Drop epochs that start at or above the new log end."""
        while self._entries and self._entries[-1].start_offset >= end_offset:
            self._entries.pop()
            self._shown = None

    def forget_before(self, start_offset: Offset) -> None:
        """Let the log start here: the epoch of its first record starts here, too.

        Source: Kafka ``LeaderEpochFileCache.truncateFromStartAsyncFlush``.
        """
        kept = bisect_right(self._entries, start_offset, key=lambda entry: entry.start_offset)
        if kept:
            self._shown = None
            self._entries[:kept] = [EpochStart(epoch=self._entries[kept - 1].epoch, start_offset=start_offset)]

    def end_of(self, epoch: Epoch, log_end_offset: Offset) -> OffsetAndEpoch | None:
        """The largest known epoch <= ``epoch`` and its end; None when no higher epoch is known.

        The latest epoch ends at the log end. When every known epoch is higher, the result is ``epoch`` itself, ending
        where the first known one starts.
        """
        if self._entries and self._entries[-1].epoch == epoch:
            return OffsetAndEpoch(log_end_offset, epoch)
        at = bisect_right(self._entries, epoch, key=lambda entry: entry.epoch)
        if at == len(self._entries):
            return None
        floor = self._entries[at - 1].epoch if at else epoch
        return OffsetAndEpoch(self._entries[at].start_offset, floor)


def epoch_at(entries: Sequence[EpochStart], offset: Offset) -> Epoch | None:
    """Epoch of the record at this offset, from ascending entries; None before the first one."""
    at = bisect_right(entries, offset, key=lambda entry: entry.start_offset)
    return entries[at - 1].epoch if at else None
