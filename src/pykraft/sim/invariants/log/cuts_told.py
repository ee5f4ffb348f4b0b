"""A follower that truncates its log says so, with the offsets from and to which it cuts.

Most truncations are what Raft does with records that were never committed. After an operator's mistake they are the
first sign of it, and the last: afterwards all logs are equal. A log that is known to be damaged is reported otherwise.

Source: ours (ADR 128).
"""

from __future__ import annotations

from pykraft.core.effects import TruncateTo
from pykraft.log.lane import Job
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import SimulatedNode


class CutsAreTold(Invariant):
    """Each truncation of a sound log is reported with both offsets before it is done."""

    def _begin(self) -> None:
        self._told: dict[int, str] = {}

    def reported(self, node: SimulatedNode, text: str) -> None:
        """Remember what this node said last."""
        self._told[int(node.node_id)] = text

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Compare a truncation with the report before it."""
        if not isinstance(job, TruncateTo) or node.is_damaged:
            return
        told, end_offset = self._told.get(int(node.node_id), ""), self.facts.ledger(node).end_offset
        if not told.startswith(f"truncating the log from {end_offset} to {job.end_offset}: "):
            raise self.violated(
                f"node {node.node_id} cuts its log from {end_offset} to {job.end_offset}; it last said: {told}"
            )
