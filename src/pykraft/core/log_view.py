"""What the core knows of its log: start, end, epochs and the flushed end. No bytes, no files.

Invariant: ``start_offset <= flushed_end_offset <= end_offset``. The flushed end follows the numbers of storage jobs,
never offsets. An offset can be truncated and written again, and a late completion of the first write must not count for
the second (etcd's append ABA story):

1. Job 1 appends records 5–9.
2. Job 2 truncates to 5.
3. Job 3 appends other records 5–9.
4. Job 1 completes. By offsets alone, 5–9 would now count as durable; they are durable only when job 3 completes.

If the log does not start at 0, a snapshot covers what is missing. Snapshots contain committed records only; the
bootstrap checkpoint 0-0 does not count as a snapshot here.

Source: KIP-595 §Log reconciliation, KIP-630; Kafka ``RaftLog``; etcd ``raft/log_unstable.go``.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pykraft.core.epochs import EpochCache
from pykraft.core.quarantine import Quarantine
from pykraft.types import EPOCH_ZERO, Epoch, EpochStart, Io, Offset, OffsetAndEpoch

BATCH_ENDS_KEPT: Final = 1_000
"""A log that knows the ends of so many batches forgets the committed ones."""


@dataclass(slots=True)
class _Unflushed:
    io: Io
    end_offset: Offset


class LogView:
    """Offsets and epochs of one log, including records that are still being written."""

    def __init__(
        self,
        *,
        start_offset: Offset,
        end_offset: Offset,
        epochs: Iterable[EpochStart] = (),
        snapshots: Iterable[OffsetAndEpoch] = (),
        quarantine: Quarantine | None = None,
        committed_end_offset: Offset | None = None,
    ) -> None:
        """``committed_end_offset`` is what an earlier process knew to be committed, if the log reaches that far."""
        assert 0 <= start_offset <= end_offset
        self.start_offset = start_offset
        self.end_offset = end_offset
        self.flushed_end_offset = end_offset
        self.committed_end_offset = max(start_offset, min(committed_end_offset or start_offset, end_offset))
        """Exclusive end of what this replica ever knew to be committed, whatever its state is now (ADR 128)."""
        self.snapshots = tuple(sorted(snapshots, key=_age))
        """Ids of the complete and durable snapshots, oldest first: by epoch, then by offset."""
        self.quarantine = quarantine
        """Set while part of this log is lost and not fetched again yet."""
        is_complete = start_offset == 0 or any(each.offset >= start_offset for each in self.snapshots)
        assert is_complete, "a snapshot stands for what lies before the log"
        self._epochs = EpochCache(epochs)
        self._unflushed: deque[_Unflushed] = deque()
        self._batch_ends = [end_offset]
        """Ends of the newest batches, ascending: all above the committed end that were appended since the start."""
        latest = self._epochs.latest
        assert latest is None or latest.start_offset <= end_offset, "an epoch begins within the log"

    @property
    def last_epoch(self) -> Epoch:
        """Epoch of the last record, which may only be in a snapshot; 0 for an empty log."""
        latest = self._epochs.latest
        if latest is not None:
            return latest.epoch
        return next((each.epoch for each in self.snapshots if each.offset == self.end_offset), EPOCH_ZERO)

    @property
    def end(self) -> OffsetAndEpoch:
        """End offset (exclusive) with the epoch of the record before it."""
        return OffsetAndEpoch(self.end_offset, self.last_epoch)

    @property
    def unflushed_count(self) -> int:
        """Number of appends and truncations that are not durable yet."""
        return len(self._unflushed)

    @property
    def epochs(self) -> tuple[EpochStart, ...]:
        """Entries of the epoch cache, ascending."""
        return self._epochs.entries

    @property
    def known_committed_end_offset(self) -> Offset:
        """As ``committed_end_offset``, or the end of the newest snapshot if that is higher."""
        # After a start nobody has told the high watermark yet, but snapshots contain committed records only.
        newest = self.latest_snapshot
        return self.committed_end_offset if newest is None else max(self.committed_end_offset, newest.offset)

    @property
    def latest_snapshot(self) -> OffsetAndEpoch | None:
        """The newest snapshot, or None."""
        return self.snapshots[-1] if self.snapshots else None

    def begin_epoch(self, epoch: Epoch) -> None:
        """A new leader's epoch starts at the log end (KIP-595 §Leader start)."""
        self._epochs.assign(epoch, self.end_offset)

    def append(self, *, base_offset: Offset, end_offset: Offset, epoch: Epoch) -> None:
        """One batch was planned at the log end; `submit` follows once for all batches of a job."""
        assert base_offset == self.end_offset < end_offset
        assert epoch >= self.last_epoch, "epochs never go backwards in a log"
        self._epochs.assign(epoch, base_offset)
        self.end_offset = end_offset
        if len(self._batch_ends) >= BATCH_ENDS_KEPT:
            del self._batch_ends[: bisect_left(self._batch_ends, self.committed_end_offset)]
        self._batch_ends.append(end_offset)

    def whole_batches_below(self, offset: Offset) -> Offset:
        """Within a batch, the start of this batch; the offset itself where batches are not known any more.

        A leader knows all batches of its own epoch that are not committed, and nothing commits without one of these.

        Source: Kafka ``LogSegment.read``, whose metadata is that of the batch.
        """
        ended = bisect_right(self._batch_ends, offset)
        return self._batch_ends[ended - 1] if ended else offset

    def truncate_to(self, end_offset: Offset) -> None:
        """Records from ``end_offset`` on were truncated; `submit` follows."""
        assert self.committed_end_offset <= end_offset, "what is committed is never cut"
        self.lose_from(end_offset)

    def lose_from(self, end_offset: Offset) -> None:
        """Records from ``end_offset`` on are lost, even ones that others count as committed with this copy."""
        assert self.start_offset <= end_offset <= self.end_offset
        self.committed_end_offset = min(self.committed_end_offset, end_offset)
        self.end_offset = end_offset
        self.flushed_end_offset = min(self.flushed_end_offset, end_offset)
        for write in self._unflushed:
            # Step 2 of the story: a later completion of this job must not count for the records that step 3 writes.
            write.end_offset = min(write.end_offset, end_offset)
        self._epochs.truncate_to(end_offset)
        self._batch_ends = [*self._batch_ends[: bisect_left(self._batch_ends, end_offset)], end_offset]

    def commit_to(self, end_offset: Offset) -> None:
        """Everything below is committed; a lower offset than before changes nothing."""
        assert end_offset <= self.end_offset
        self.committed_end_offset = max(self.committed_end_offset, end_offset)

    def submit(self, io: Io) -> None:
        """Storage job ``io`` will make the log durable up to its current end."""
        assert not self._unflushed or self._unflushed[-1].io < io
        self._unflushed.append(_Unflushed(io, self.end_offset))

    def persist(self, io: Io) -> None:
        """All jobs up to ``io`` are durable."""
        while self._unflushed and self._unflushed[0].io <= io:
            # Step 4 of the story: job 1 has had its end lowered to 5 by the truncation.
            self.flushed_end_offset = self._unflushed.popleft().end_offset

    def is_older_than(self, snapshot_id: OffsetAndEpoch) -> bool:
        """True when this snapshot holds more than the log and may replace it, unless it `lacks_committed`.

        Source: Kafka ``RaftLog.truncateToLatestSnapshot``; the second case is ours (ADR 119).
        """
        # A log that ends before the snapshot may have a higher epoch: that of a leader of which nothing was committed.
        return not self.end.is_at_least(snapshot_id) or self.end_offset < snapshot_id.offset

    def lacks_committed(self, snapshot_id: OffsetAndEpoch) -> bool:
        """True when a record known to be committed is not in this snapshot: it comes later, or in a later epoch."""
        newest = self.latest_snapshot
        # One that ends before ours says less but nothing else. It is of use where damage has left less than our newest.
        if newest is not None and newest.epoch > snapshot_id.epoch and newest.offset <= snapshot_id.offset:
            return True
        later = next((each.start_offset for each in self.epochs if each.epoch > snapshot_id.epoch), self.end_offset)
        return self.committed_end_offset > min(snapshot_id.offset, later)

    def holds(self, snapshot_id: OffsetAndEpoch) -> bool:
        """True when the records that this snapshot covers are a prefix of this log."""
        is_within = self.start_offset <= snapshot_id.offset <= self.end_offset
        return is_within and self.diverging_from(snapshot_id.offset, snapshot_id.epoch) is None

    def add_snapshot(self, snapshot_id: OffsetAndEpoch) -> None:
        """A snapshot of records that the log holds was frozen."""
        assert self.holds(snapshot_id)
        self.snapshots = tuple(sorted({*self.snapshots, snapshot_id}, key=_age))

    def begin_at(self, snapshot_id: OffsetAndEpoch) -> None:
        """Drop the log before this snapshot, and older snapshots (KIP-630 §When to Delete Snapshots)."""
        assert snapshot_id in self.snapshots
        assert self.start_offset < snapshot_id.offset <= self.committed_end_offset
        self.start_offset = snapshot_id.offset
        self.snapshots = self.snapshots[self.snapshots.index(snapshot_id) :]
        self._epochs.forget_before(self.start_offset)

    def replace_by(self, snapshot_id: OffsetAndEpoch) -> None:
        """Replace the log by a frozen snapshot that holds more; `submit` follows."""
        assert self.is_older_than(snapshot_id)
        assert self.committed_end_offset <= snapshot_id.offset, "what is committed is never lost"
        self.snapshots = (snapshot_id,)
        # The snapshot is durable already, so the log is flushed up to its end from the first moment.
        self.start_offset = self.end_offset = self.flushed_end_offset = self.committed_end_offset = snapshot_id.offset
        for write in self._unflushed:
            write.end_offset = snapshot_id.offset
        self._epochs = EpochCache()
        self._batch_ends = [snapshot_id.offset]

    def end_of_epoch(self, epoch: Epoch) -> OffsetAndEpoch:
        """The largest known epoch <= ``epoch`` and its end; the log end when no higher epoch is known.

        Source: Kafka ``KafkaRaftLog.endOffsetForEpoch``.
        """
        end = self._epochs.end_of(epoch, self.end_offset) or self.end
        # Before the log start, only the oldest snapshot knows the epoch of the last record.
        is_unknown = bool(self.snapshots) and end == OffsetAndEpoch(self.snapshots[0].offset, epoch)
        return self.snapshots[0] if is_unknown else end

    def snapshot_instead_of(self, offset: Offset, last_epoch: Epoch) -> OffsetAndEpoch | None:
        """The snapshot for a replica whose log ends at (offset, last_epoch); None when this log can serve it.

        Source: KIP-630 §Fetch; Kafka ``RaftLog.validateOffsetAndEpoch``, ``KafkaRaftClient.tryCompleteFetchRequest``.
        """
        if not self.snapshots:
            return None
        oldest_epoch = self.snapshots[0].epoch
        is_before = offset < self.start_offset or last_epoch < oldest_epoch
        is_other = offset == self.start_offset and last_epoch != oldest_epoch
        # An empty replica gets the newest snapshot rather than the log, even if the whole log is still there.
        return self.snapshots[-1] if offset == 0 or is_before or is_other else None

    def diverging_from(self, offset: Offset, last_epoch: Epoch) -> OffsetAndEpoch | None:
        """None when a log that ends at (offset, last_epoch) is a prefix; else the diverging epoch and its end.

        Source: Kafka ``RaftLog.validateOffsetAndEpoch``.
        """
        if offset == 0 and self.start_offset == 0:
            return None
        latest = self._epochs.latest
        # The common case, without objects: the follower has the newest epoch, and no snapshot ends at the log end.
        if latest is not None and latest.epoch == last_epoch and not self.snapshots and offset <= self.end_offset:
            return None
        end = self.end_of_epoch(last_epoch)
        return None if end.epoch == last_epoch and end.offset >= offset else end

    def truncation_point(self, diverging: OffsetAndEpoch) -> Offset:
        """Where to truncate, given the leader's largest epoch <= ours and its end there.

        Source: KIP-595 §Truncation; Kafka ``RaftLog.truncateToEndOffset``.
        """
        # Nobody leads in epoch 0, so this log cannot say where it ends.
        if diverging.epoch == 0:
            return min(diverging.offset, self.end_offset)
        own = self.end_of_epoch(diverging.epoch)
        return min(own.offset, diverging.offset) if own.epoch == diverging.epoch else own.offset


def _age(snapshot_id: OffsetAndEpoch) -> tuple[Epoch, Offset]:
    """The order of snapshots and log ends: epoch before offset. Source: Kafka ``OffsetAndEpoch.compareTo``."""
    return snapshot_id.epoch, snapshot_id.offset
