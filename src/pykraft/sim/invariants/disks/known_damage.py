"""What a node knows to be damaged stays known until its quarantine is over.

Its operator is told where at each start, and a disk that is dying shows it there.

Source: ours (ADR 012); `pykraft.core.quarantine`.
"""

from __future__ import annotations

from typing import Final

from pykraft.core.quarantine import DAMAGES_MAX
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.node import Node
from pykraft.types import Offset

OVER: Final = "out of quarantine"
"""How a host tells that."""


class DamageStaysKnown(Invariant):
    """No damaged place is forgotten before the quarantine is over, except that a list of them has an end."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._known: dict[int, tuple[tuple[str, Offset], ...]] = {}

    def wiped(self, node: Node) -> None:
        """It has nothing any more that could be damaged."""
        self._known.pop(int(node.node_id), None)

    def reported(self, node: Node, text: str) -> None:
        """A quarantine is over; the next one may begin before the lane of the disk has rested."""
        if text.startswith(OVER):
            self._known.pop(int(node.node_id), None)

    def persisted(self, node: Node) -> None:
        """Compare what is on the disk now with what was there before."""
        node_id, quarantine = int(node.node_id), node.host.quarantine if node.host is not None else None
        if quarantine is None:
            self._known.pop(node_id, None)
            return
        places = tuple((damage.path, damage.start_offset) for damage in quarantine.damages)
        missing = [place for place in self._known.get(node_id, ()) if place not in places]
        if missing and len(places) < DAMAGES_MAX:
            raise self.violated(f"node {node_id} knows of damage at {places}, and not at {missing} any more")
        self._known[node_id] = places
