"""A voter that never leads, once it is elected, appends its LeaderChange only, and hands over at once.

It cannot write what the quorum needs, so each moment of its leadership is lost. It has to lead until another voter has
its whole log, and not for an event longer; and it names the most caught-up voter first, which can win at once.

Source: ours (ADR 077).
"""

from __future__ import annotations

from pykraft.core.state import Leader, Resigned
from pykraft.log.lane import AppendBytes
from pykraft.protocol.records import decode_control
from pykraft.sim.invariants.invariant import Invariant, Job, Report, SimulatedNode, View
from pykraft.types import LeaderChange, ReportKind


class BriefLeaderHandsOver(Invariant):
    """A voter that never leads writes nothing but LeaderChange, does not stay, and names the best successor first."""

    def _begin(self) -> None:
        self._handing_over: set[int] = set()

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Such a leader resigns because another voter has its whole log, not for any other reason."""
        if report.kind is ReportKind.HANDED_OVER:
            self._handing_over.add(int(node.node_id))

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Check what such a leader appends."""
        status = node.status
        if not isinstance(job, AppendBytes) or not node.config.raft.never_leads or status is None or not status.leads:
            return
        for header, data in job.batches:
            records = decode_control(data) if header.is_control else []
            if [type(record) for record in records] != [LeaderChange]:
                seen = f"node {node.node_id}, which never leads, appends {records or 'proposals'}"
                raise self.violated(f"{seen} at {header.base_offset} in epoch {status.epoch}")

    def after_event(self, node: SimulatedNode, now: View) -> None:
        """Check that such a leader goes as soon as another voter has its whole log."""
        raft = node.host.raft if node.host is not None else None
        if raft is None or not isinstance(raft.state, Leader) or not node.config.raft.never_leads:
            return
        voters = raft.state.progress.voters.values()
        others = {int(seen.key.id): seen.end_offset for seen in voters if seen.key.id != node.node_id}
        if raft.log.end_offset in others.values():
            raise self.violated(f"node {node.node_id}, which never leads, leads on in epoch {now.epoch}: {others}")

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Check whom such a leader names first."""
        node_id, raft = int(node.node_id), node.host.raft if node.host is not None else None
        if node_id not in self._handing_over:
            return
        self._handing_over.discard(node_id)
        if raft is None or not was.leads or not isinstance(raft.state, Resigned):
            return
        first = self.facts.nodes[int(raft.state.successors[0].id)]
        if first.ledger.end_offset < node.ledger.end_offset:
            seen = f"node {node_id} of epoch {now.epoch} hands {node.ledger.end_offset} records over"
            raise self.violated(f"{seen} to node {first.node_id}, which has {first.ledger.end_offset}")
