"""A follower that truncates its log says so, with the offsets from and to which it cuts.

Most truncations are what Raft does with records that were never committed. After an operator's mistake they are the
first sign of it, and the last: afterwards all logs are equal. A log that is known to be damaged is reported otherwise.

Source: ours (ADR 128).
"""

from __future__ import annotations

from pykraft.core.effects import TruncateTo
from pykraft.sim.invariants.invariant import Invariant, Job, Report, SimulatedNode
from pykraft.types import ReportKind


class CutsAreTold(Invariant):
    """Each truncation of a sound log is reported with both offsets before it is done."""

    def _begin(self) -> None:
        self._told: dict[int, Report] = {}

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Remember what this node said last."""
        self._told[int(node.node_id)] = report

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Compare a truncation with the report before it."""
        if not isinstance(job, TruncateTo) or node.is_damaged:
            return
        told, end_offset = self._told.get(int(node.node_id)), self.facts.ledger(node).end_offset
        if told is None or (told.kind, told.values) != (ReportKind.TRUNCATION, (end_offset, job.end_offset)):
            seen = f"node {node.node_id} cuts its log from {end_offset} to {job.end_offset}"
            raise self.violated(f"{seen}; it last said: {told.text if told is not None else ''}")
