"""A leader that sends records to a second process with a static voter's id says so.

Otherwise nobody learns that the two processes exist: each of them works, and `describe` shows healthy voters.

Source: ours (ADR 130).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode, View
from pykraft.types import ReportKind


class TwinsAreTold(Invariant):
    """Whoever sends records to a twin of a voter has raised an alarm in this epoch, which names the voter."""

    def _begin(self) -> None:
        self._told: set[tuple[int, int, int]] = set()

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Note whom an alarm names."""
        if report.kind is ReportKind.TWIN and node.host is not None and node.host.raft is not None:
            self._told.add((int(node.node_id), int(node.host.raft.state.epoch), report.values[0]))

    def after_event(self, _node: SimulatedNode, _now: View) -> None:
        """Check those that have sent records to a twin."""
        fed = self.facts.claims.fed_twins
        if fed and not fed <= self._told:
            leader_id, epoch, voter_id = min(fed - self._told)
            raise self.violated(
                f"node {leader_id}, the leader of epoch {epoch}, has sent records to a second process with the id "
                f"{voter_id}, and raises no alarm"
            )
