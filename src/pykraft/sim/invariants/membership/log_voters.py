"""The voter set in force is the newest one in the log, committed or not, and goes with it when the log is cut.

That a set counts from the moment it is appended is what makes a change by one voter safe; that it counts no more when
it was cut off is what makes it one.

Source: KIP-853 §Log and voter sets; Raft dissertation §4.1; Kafka ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from pykraft.log.lane import AppendBatches, Job, WriteElection
from pykraft.sim.facts.facts import Facts
from pykraft.sim.facts.view import View
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node


class VotersAreOfTheLog(Invariant):
    """Each node takes the voters of its own log, or without any those that it began with."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._unsure: set[int] = set()

    def started(self, node: Node) -> None:
        """Recovery has read it."""
        self._unsure.add(int(node.node_id))

    def submitted(self, node: Node, job: Job) -> None:
        """Look when the log may say something else afterwards."""
        is_data = isinstance(job, AppendBatches) and not any(header.is_control for header, _ in job.batches)
        if not is_data and not isinstance(job, WriteElection):
            self._unsure.add(int(node.node_id))

    def changed(self, node: Node, was: View, now: View) -> None:
        """Look when the node says something else."""
        if was.voters is not now.voters:
            self._unsure.add(int(node.node_id))

    def after_event(self, node: Node, now: View) -> None:
        """Compare."""
        if int(node.node_id) not in self._unsure:
            return
        if node.is_damaged and any(each.offset > node.ledger.end_offset for each in now.snapshots):
            return  # what a snapshot says stands for what was lost, until that is fetched again
        self._unsure.discard(int(node.node_id))
        found = self.facts.members.voters_of(node)
        if now.is_up and now.voters != found:
            seen = f"node {node.node_id}, {now.role} in epoch {now.epoch}, takes {[*now.voters.ids]} for the voters"
            raise self.violated(f"{seen}, its log says {[*found.ids]}")
