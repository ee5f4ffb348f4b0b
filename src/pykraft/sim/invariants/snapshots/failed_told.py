"""A process that found no room for a snapshot says so, in its log and in a metric.

Its log grows until it fills the disk, and nobody would know why.

Source: ours (ADR 134).
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode
from pykraft.types import ReportKind

METRIC: Final = "failed-snapshots-total"


class FailedSnapshotsAreTold(Invariant):
    """Each process that found no room for a snapshot has raised an alarm by the end of the world, and counted it."""

    def _begin(self) -> None:
        self._told: set[int] = set()

    def started(self, node: SimulatedNode) -> None:
        """A new process has met no failure yet."""
        self._told.discard(int(node.node_id))
        self.facts.claims.snapshotless_ids.discard(int(node.node_id))

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Note who raises the alarm."""
        if report.kind is ReportKind.SNAPSHOT_NOT_WRITTEN:
            self._told.add(int(node.node_id))

    def ended(self) -> None:
        """Check those that found no room."""
        for node_id in sorted(self.facts.claims.snapshotless_ids - self._told):
            raise self.violated(f"node {node_id} had no room for a snapshot, and raises no alarm")
        for node_id in sorted(self._told):
            node = self.facts.nodes[node_id]
            counted = node.host.metrics(node.clock.instant).get(METRIC) if node.host is not None else None
            if counted == 0:
                raise self.violated(f"node {node_id} says that snapshots failed, and its {METRIC} is 0")
