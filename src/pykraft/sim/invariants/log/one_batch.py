"""A leader appends its backlog batch by batch, a step for each.

What one step appends is encoded before the node looks at anything else. After a stall of its disk a leader may have
a long backlog; encoded at once it holds up the node for longer than an election takes.

Source: ours (ADR 037).
"""

from __future__ import annotations

from pykraft.log.lane import AppendBatches, Job
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node

BATCHES_MAX = 2
"""A voter set is appended together with what was proposed before it: one full batch, and one that lingers."""


class OneBatchAStep(Invariant):
    """No leader appends more than one batch of proposals in one step, and with a voter set no more than two."""

    def submitted(self, node: Node, job: Job) -> None:
        """Look at what a leader appends."""
        if not isinstance(job, AppendBatches) or node.host is None or node.host.role != "leader":
            return
        control = sum(header.is_control for header, _ in job.batches)
        count = len(job.batches) - control
        if count > (BATCHES_MAX if control else 1):
            raise self.violated(f"leader {node.node_id} appends {count} batches of proposals in one step")
