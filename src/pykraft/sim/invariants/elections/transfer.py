"""A leader resigns in favor of another voter only when that voter has its whole log, and all of it is committed.

Then the other voter wins any election, and no client is left with an unknown outcome by the transfer. The leader
reports the voter it resigns for; the offset of that voter's last Fetch tells what it has.

Source: Raft dissertation §3.10 (leadership transfer extension).
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode, Spoken
from pykraft.types import ReplicaKey, ReportKind


class TransferLeavesNothing(Invariant):
    """A leader that resigns for another voter has nothing uncommitted, and the other voter lacks nothing."""

    def _begin(self) -> None:
        self._asked: dict[ReplicaKey, tuple[int, int]] = {}
        """Epoch and offset of the last Fetch of each disk."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember how far each replica is."""
        if spoken.fetched is not None:
            self._asked[node.key] = (spoken.epoch, spoken.fetched.offset)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """Check the target's last Fetch, and what is committed."""
        if report.kind is not ReportKind.RESIGNED_FOR_TARGET or node.status is None:
            return
        epoch, target_id = report.values
        voter = self.facts.members.voters_of(node).voters
        keys = [each.key for each in voter if each.key.id == target_id]
        known = next((offset for key, offset in self._asked.items() if any(each.matches(key) for each in keys)), (0, 0))
        end_offset = self.facts.ledger(node).end_offset
        committed = node.status.committed_end_offset
        if known != (epoch, end_offset) or committed != end_offset:
            seen = f"leader {node.node_id} of epoch {epoch} resigns for {target_id} at {end_offset}"
            raise self.violated(f"{seen}, of which that one has {known[1]}, and {committed} is committed")
