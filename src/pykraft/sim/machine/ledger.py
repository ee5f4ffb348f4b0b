"""Which batches a log holds, in order: the short form that oracles compare.

An `Entry` identifies a batch by its offsets, epoch and checksum; the values are left out. Invariant: a `Ledger` lists
what its host has asked the disk to hold, from the log start on, durable or not; after a restart, what recovery found.
Everything before the log start is in a snapshot.

Source: Raft paper §5.3 (Log Matching speaks of index and term); the checksum is ours.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pykraft.core.effects import InstallSnapshot, MoveLogStart, TruncateTo
from pykraft.log.lane import AppendBytes, Job
from pykraft.protocol.batch import BatchHeader
from pykraft.sim.machine.spoken import LogEnd
from pykraft.types import Epoch, Offset, OffsetAndEpoch

BEGINNING = OffsetAndEpoch(Offset(0), Epoch(0))
"""The start of a log that begins with no snapshot."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One batch; ``end_offset`` is exclusive."""

    base_offset: int
    end_offset: int
    epoch: int
    crc: int

    @classmethod
    def of(cls, header: BatchHeader) -> Entry:
        """The entry of the batch with this header."""
        return cls(header.base_offset, header.end_offset, header.epoch, header.crc)


def entry_at(entries: Sequence[Entry], offset: int) -> Entry | None:
    """The batch that holds this offset; None when there is none."""
    at = bisect_right(entries, offset, key=lambda entry: entry.base_offset) - 1
    return entries[at] if at >= 0 and offset < entries[at].end_offset else None


class Ledger:
    """The log of one node as its running process sees it."""

    def __init__(self, entries: Iterable[Entry] = (), begin: OffsetAndEpoch = BEGINNING) -> None:
        self.entries = list(entries)
        self.begin = begin
        """Log start offset, and the epoch of the record before it; used where there is no batch."""

    @property
    def end_offset(self) -> int:
        """End of the last batch (exclusive)."""
        return self.entries[-1].end_offset if self.entries else self.begin.offset

    @property
    def last_epoch(self) -> int:
        """Epoch of the last batch, which may be in a snapshot; 0 without one."""
        return self.entries[-1].epoch if self.entries else self.begin.epoch

    @property
    def end(self) -> LogEnd:
        """End offset, and the epoch of the last batch."""
        return LogEnd(epoch=self.last_epoch, offset=self.end_offset)

    def at(self, offset: int) -> Entry | None:
        """The batch that holds this offset."""
        return entry_at(self.entries, offset)

    def submitted(self, job: Job) -> None:
        """Apply a storage job that the host has submitted."""
        match job:
            case AppendBytes():
                self.entries += [Entry.of(header) for header, _ in job.batches]
            case TruncateTo():
                self.cut(job.end_offset)
            case InstallSnapshot():
                self.entries, self.begin = [], job.snapshot_id
            case MoveLogStart():
                self._forget_before(job.snapshot_id.offset)
            case _:
                pass

    def cut(self, end_offset: int) -> None:
        """Keep only the batches that end at or below this offset."""
        while self.entries and self.entries[-1].end_offset > end_offset:
            self.entries.pop()

    def _forget_before(self, offset: Offset) -> None:
        """Keep only the batches that begin at or above this offset."""
        gone = bisect_right(self.entries, int(offset), key=lambda entry: entry.end_offset)
        if gone:
            self.begin = OffsetAndEpoch(offset, Epoch(self.entries[gone - 1].epoch))
            del self.entries[:gone]
