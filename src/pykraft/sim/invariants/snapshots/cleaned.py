"""A node removes no part of its log before a durable snapshot covers it.

Cleaning lets the log begin where a snapshot ends; an installed snapshot replaces the whole log. The removed records are
then in that snapshot and nowhere else on this node, so the snapshot must be on the platter when the job to remove them
is submitted. A leader never installs one: it was elected with everything that is committed.

Source: KIP-630 §When to Delete Snapshots; Kafka's ``KafkaRaftLog.deleteBeforeSnapshot`` and
``truncateToLatestSnapshot``.
"""

from __future__ import annotations

from pykraft.log.lane import BeginAnew, DeleteBefore, Job
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class CleanedIsInSnapshot(Invariant):
    """A log is cleaned, or replaced, up to the end of a snapshot on the platter; and a leader's is never replaced."""

    def submitted(self, node: Node, job: Job) -> None:
        """Check that a snapshot ends where the log is to begin."""
        if not isinstance(job, BeginAnew | DeleteBefore):
            return
        durable = self.facts.platters.snapshots(node)
        if not any(each.offset == job.offset for each in durable):
            seen = f"node {node.node_id} lets its log begin at {job.offset}"
            raise self.violated(f"{seen}, its snapshots are {list(durable)}")
        if isinstance(job, BeginAnew) and node.host is not None and node.host.role == "leader":
            raise self.violated(f"node {node.node_id} leads, and puts a snapshot into the place of its log")
