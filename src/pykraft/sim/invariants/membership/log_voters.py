"""The voter set in force is the newest one in the log, committed or not, and goes when the log is truncated.

A change by one voter is safe because a set counts from the moment it is appended, and because a truncated set no longer
counts.

Source: KIP-853 §Log and voter sets; Raft dissertation §4.1; Kafka ``KRaftControlRecordStateMachine``.
"""

from __future__ import annotations

from pykraft.core.effects import WriteElectionState
from pykraft.log.lane import AppendBytes
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode, View


class VotersAreOfTheLog(Invariant):
    """Each node uses the voters of its own log, or those that it began with when its log has none."""

    def _begin(self) -> None:
        self._unsure: set[int] = set()

    def started(self, node: SimulatedNode) -> None:
        """Recovery has read the log."""
        self._unsure.add(int(node.node_id))

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check after jobs that may change the voters in the log."""
        is_data = isinstance(job, AppendBytes) and not any(header.is_control for header, _ in job.batches)
        if not is_data and not isinstance(job, WriteElectionState):
            self._unsure.add(int(node.node_id))

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check when the node's voters change."""
        if was.voters is not now.voters:
            self._unsure.add(int(node.node_id))

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Compare the node with its log."""
        if int(node.node_id) not in self._unsure:
            return
        if node.is_damaged and any(each.offset > node.ledger.end_offset for each in now.snapshots):
            return  # The voters of a snapshot count in place of the lost records until those are fetched again.
        self._unsure.discard(int(node.node_id))
        found = self.facts.members.voters_of(node)
        if now.is_up and now.voters != found:
            seen = f"node {node.node_id}, {now.role} in epoch {now.epoch}, takes {[*now.voters.ids]} for the voters"
            raise self.violated(f"{seen}, its log says {[*found.ids]}")
