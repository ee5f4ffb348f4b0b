"""Nothing of a log goes before a snapshot that is durable stands for it.

Cleaning lets the log begin where a snapshot ends, and an install puts one in the place of all of it. What lies before
is in that snapshot and nowhere else on this node, so it must be on the platter when the order to remove the rest is
given. A leader never installs one: it was elected with all that is committed.

Source: KIP-630 self.factshen to Delete Snapshots; Kafka's ``KafkaRaftLog.deleteBeforeSnapshot`` and
``truncateToLatestSnapshot``.
"""

from __future__ import annotations

from pykraft.log.lane import BeginAnew, DeleteBefore, Job
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class CleanedIsInSnapshot(Invariant):
    """A log is cleaned, or replaced, up to the end of a snapshot on the platter; and a leader's is never replaced."""

    def submitted(self, node: Node, job: Job) -> None:
        """Look whether there is a snapshot that ends where the log is to begin."""
        if not isinstance(job, BeginAnew | DeleteBefore):
            return
        durable = self.facts.platters.snapshots(node)
        if not any(each.offset == job.offset for each in durable):
            seen = f"node {node.node_id} lets its log begin at {job.offset}"
            raise self.violated(f"{seen}, its snapshots are {list(durable)}")
        if isinstance(job, BeginAnew) and node.host is not None and node.host.role == "leader":
            raise self.violated(f"node {node.node_id} leads, and puts a snapshot into the place of its log")
