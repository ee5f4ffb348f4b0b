"""A leader appends its backlog one batch per step.

A step encodes everything it appends before the node does anything else. After a stall of its disk a leader may have a
long backlog; encoding it at once would block the node for longer than an election takes.

Source: ours (ADR 037).
"""

from __future__ import annotations

from pykraft.log.lane import AppendBytes
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode

BATCHES_MAX = 2
"""A voter set is appended together with the proposals before it: one full batch, and one that lingers."""


class OneBatchAStep(Invariant):
    """No leader appends more than one batch of proposals in one step, and with a voter set no more than two."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check what a leader appends."""
        if not isinstance(job, AppendBytes) or node.status is None or not node.status.leads:
            return
        control = sum(header.is_control for header, _ in job.batches)
        count = len(job.batches) - control
        if count > (BATCHES_MAX if control else 1):
            raise self.violated(f"leader {node.node_id} appends {count} batches of proposals in one step")
