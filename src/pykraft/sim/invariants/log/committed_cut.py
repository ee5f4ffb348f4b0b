"""No node removes a committed record that it holds.

A follower truncates only what no majority holds. If it is told otherwise, it or its leader has a bug, and the
truncation would lose acknowledged records. A snapshot replaces committed records only if it contains them.

Source: Raft paper §5.3–5.4; Kafka ``KafkaRaftLog.truncateToEndOffset`` (refuses below the high watermark).
"""

from __future__ import annotations

from pykraft.core.effects import InstallSnapshot, TruncateTo
from pykraft.log.lane import Job
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode


class CommittedIsNeverCut(Invariant):
    """No truncation, and no snapshot that ends before it, removes a batch that some leader counted as committed."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check what a truncation, or a snapshot that replaces the log, removes."""
        if not isinstance(job, TruncateTo | InstallSnapshot):
            return
        end_offset = job.end_offset if isinstance(job, TruncateTo) else job.snapshot_id.offset
        committed = self.facts.committed
        for entry in reversed(self.facts.ledger(node).entries):
            if entry.end_offset <= end_offset:
                return
            if committed.at(entry.base_offset) == entry:
                seen = f"node {node.node_id} cuts its log to {end_offset}, and with it"
                raise self.violated(f"{seen} the committed batch at {entry.base_offset} of epoch {entry.epoch}")
