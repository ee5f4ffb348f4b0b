"""No node removes a committed record that it holds.

A follower truncates only what no majority holds. If it is told otherwise, it or its leader has a bug, and the
truncation would lose acknowledged records. A snapshot replaces committed records only if it contains them.

A disk may have changed the epochs of batches. A replica that knows of damage promises nothing about its log, and may
have to fetch again what was written as it should be.

The leader of an older epoch does not know what a newer one has committed, and who still follows it may be told to cut
that: its copy did not count.

Source: Raft paper §5.3–5.4; Kafka ``KafkaRaftLog.truncateToEndOffset`` (refuses below the high watermark).
"""

from __future__ import annotations

from bisect import bisect_left

from pykraft.core.effects import InstallSnapshot, TruncateTo
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode, View
from pykraft.sim.machine.ledger import Entry


class CommittedIsNeverCut(Invariant):
    """No truncation, and no snapshot that ends before it, removes a batch that some leader counted as committed."""

    def _begin(self) -> None:
        self._advances: list[tuple[int, int]] = []
        """End offset and epoch of each leader that was the first to count so much as committed, ascending."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Remember in which epoch more is committed."""
        del node, was
        known = self._advances[-1][0] if self._advances else 0
        if now.has_led and now.high_watermark is not None and now.high_watermark > known:
            self._advances.append((now.high_watermark, now.epoch))

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check what a truncation, or a snapshot that replaces the log, removes."""
        if not isinstance(job, TruncateTo | InstallSnapshot):
            return
        if node.is_damaged and node.disk.is_rotten:
            return
        end_offset = job.end_offset if isinstance(job, TruncateTo) else job.snapshot_id.offset
        committed = self.facts.committed
        for entry in reversed(self.facts.ledger(node).entries):
            if entry.end_offset <= end_offset:
                return
            if committed.at(entry.base_offset) == entry and self._epoch_of_commit(entry) <= _epoch_of(node):
                seen = f"node {node.node_id} cuts its log to {end_offset}, and with it"
                raise self.violated(f"{seen} the committed batch at {entry.base_offset} of epoch {entry.epoch}")

    def _epoch_of_commit(self, entry: Entry) -> int:
        at = bisect_left(self._advances, (entry.end_offset, 0))
        return self._advances[at][1] if at < len(self._advances) else 0


def _epoch_of(node: SimulatedNode) -> int:
    assert node.status is not None
    return node.status.epoch
