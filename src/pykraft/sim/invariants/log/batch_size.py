"""A batch is not larger than what one Fetch answer returns.

A larger one would take longer to arrive than a follower expects. Only a single proposal may be larger, because its
records form one batch whatever their size.

Source: ours (ADR 036); Kafka fills batches up to its largest batch (``BatchAccumulator``).
"""

from __future__ import annotations

from pykraft.log.lane import AppendBytes
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode

OPERATIONS_LOOKED_AT = 2_000
"""The newest calls of clients; a leader appends only what was proposed recently."""


class BatchesFitAnswers(Invariant):
    """No leader appends a batch of several proposals that is larger than what batches are filled up to."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check what a leader appends."""
        if not isinstance(job, AppendBytes) or node.status is None or not node.status.leads:
            return
        most = node.config.raft.fill_size_bytes_max
        for header, data in job.batches:
            if len(data) <= most or header.is_control:
                continue
            newest = self.facts.history.operations[-OPERATIONS_LOOKED_AT:]
            inside = [
                operation
                for operation in newest
                if operation.base_offset is not None
                and operation.epoch == header.epoch
                # A leader that died before it wrote down its election may be elected in the same epoch again, without
                # what it had accepted. A producer's batch is never filled up.
                and operation.is_alive()
                and header.base_offset <= operation.base_offset < header.end_offset
            ]
            if len(inside) > 1:
                what = f"a batch of {len(data)} bytes for {len(inside)} proposals"
                raise self.violated(f"leader {node.node_id} appends {what}, and batches are filled up to {most}")
