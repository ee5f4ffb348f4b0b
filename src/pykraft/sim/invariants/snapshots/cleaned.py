"""A node removes no part of its log before a durable snapshot covers it.

Cleaning lets the log begin where a snapshot ends; an installed snapshot replaces the whole log. The removed records are
then in that snapshot and nowhere else on this node, so the snapshot must be on the platter when the job to remove them
is submitted. A leader never installs one: it was elected with everything that is committed.

Source: KIP-630 §When to Delete Snapshots; Kafka's ``KafkaRaftLog.deleteBeforeSnapshot`` and
``truncateToLatestSnapshot``.
"""

from __future__ import annotations

from pykraft.core.effects import InstallSnapshot, MoveLogStart
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode


class CleanedIsInSnapshot(Invariant):
    """A log is cleaned, or replaced, up to the end of a snapshot on the platter; and a leader's is never replaced."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check that a snapshot ends where the log is to begin."""
        if not isinstance(job, InstallSnapshot | MoveLogStart):
            return
        durable = self.facts.platters.snapshots(node)
        if not any(each.offset == job.snapshot_id.offset for each in durable):
            seen = f"node {node.node_id} lets its log begin at {job.snapshot_id.offset}"
            raise self.violated(f"{seen}, its snapshots are {list(durable)}")
        if isinstance(job, InstallSnapshot) and node.status is not None and node.status.leads:
            raise self.violated(f"node {node.node_id} leads, and puts a snapshot into the place of its log")
