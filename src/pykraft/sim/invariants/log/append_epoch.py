"""A replica appends no batch of an epoch that it has not reached; a leader appends only batches of its own epoch.

A batch of a higher epoch comes from a node that lost its leadership between the request and the answer, and has records
of the new leader in its log: the answer still names the old epoch.

Source: KAFKA-18723 (batches of a higher partition leader epoch were appended); Raft paper §5.3.
"""

from __future__ import annotations

from pykraft.log.lane import AppendBytes
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode


class AppendedEpochIsKnown(Invariant):
    """The epoch of an appended batch is at most the node's own, and equal to it for a leader."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Compare the batches with the node's epoch."""
        status = node.status
        if not isinstance(job, AppendBytes) or status is None:
            return
        for header, _ in job.batches:
            if header.epoch > status.epoch or (status.leads and header.epoch != status.epoch):
                seen = f"node {node.node_id}, {status.role} in epoch {status.epoch}, appends"
                raise self.violated(f"{seen} at offset {header.base_offset} a batch of epoch {header.epoch}")
