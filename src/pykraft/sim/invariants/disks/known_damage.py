"""A node remembers the damaged places until its quarantine is over.

Each start reports them to the operator, who can see there that a disk is dying.

Source: ours (ADR 012); `pykraft.core.quarantine`.
"""

from __future__ import annotations

from pykraft.core.quarantine import DAMAGES_MAX
from pykraft.sim.invariants.invariant import Invariant, Report, SimulatedNode
from pykraft.types import Offset, ReportKind


class DamageStaysKnown(Invariant):
    """No damaged place is forgotten before the quarantine is over, unless the list of them is full."""

    def _begin(self) -> None:
        self._known: dict[int, tuple[tuple[str, Offset], ...]] = {}

    def wiped(self, node: SimulatedNode) -> None:
        """The new disk has no damage."""
        self._known.pop(int(node.node_id), None)

    def reported(self, node: SimulatedNode, report: Report) -> None:
        """A quarantine is over; the next one may begin before the ordered lane is idle."""
        if report.kind is ReportKind.QUARANTINE_OVER:
            self._known.pop(int(node.node_id), None)

    def persisted(self, node: SimulatedNode) -> None:
        """Compare the recorded damage with what was recorded before."""
        node_id, quarantine = int(node.node_id), node.status.quarantine if node.status is not None else None
        if quarantine is None:
            self._known.pop(node_id, None)
            return
        places = tuple((damage.path, damage.start_offset) for damage in quarantine.damages)
        missing = [place for place in self._known.get(node_id, ()) if place not in places]
        if missing and len(places) < DAMAGES_MAX:
            raise self.violated(f"node {node_id} knows of damage at {places}, and not at {missing} any more")
        self._known[node_id] = places
