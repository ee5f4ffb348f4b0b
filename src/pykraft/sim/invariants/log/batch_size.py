"""A batch is filled up to what one Fetch answer brings, and no further.

A larger one takes longer to arrive than a follower has planned for. Only a single proposal may be larger: its records
are one batch, whatever they take.

Source: ours (ADR 036); Kafka fills batches up to its largest batch (``BatchAccumulator``).
"""

from __future__ import annotations

from pykraft.log.lane import AppendBatches, Job
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node

OPERATIONS_LOOKED_AT = 2_000
"""The newest calls of clients; what a leader appends was asked for lately."""


class BatchesFitAnswers(Invariant):
    """No leader appends a batch of several proposals that is larger than what a Fetch asks for."""

    def submitted(self, node: Node, job: Job) -> None:
        """Look at what a leader appends."""
        if not isinstance(job, AppendBatches) or node.host is None or node.host.role != "leader":
            return
        most = node.config.raft.fetch_size_bytes_max
        for header, data in job.batches:
            if len(data) <= most or header.is_control:
                continue
            newest = self.facts.history.operations[-OPERATIONS_LOOKED_AT:]
            inside = [
                operation
                for operation in newest
                if operation.base_offset is not None
                and operation.epoch == header.epoch
                and header.base_offset <= operation.base_offset < header.end_offset
            ]
            if len(inside) > 1:
                what = f"a batch of {len(data)} bytes for {len(inside)} proposals"
                raise self.violated(f"leader {node.node_id} appends {what}, and a Fetch brings {most}")
