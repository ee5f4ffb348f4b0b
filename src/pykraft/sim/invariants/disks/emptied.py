"""A voter whose disk was emptied takes part again only when it holds every committed record that the disk held.

It takes part when it votes, fetches with its id, or answers an announcement of its leader without an error: then it
counts for an election, for the high watermark, or for a read.

Source: ADR 022; KAFKA-14077; Raft dissertation §11.2.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken
from pykraft.sim.machine.ledger import Entry


class EmptiedReturnsWhole(Invariant):
    """No voter whose disk was emptied votes or counts while it lacks committed records that it had."""

    def _begin(self) -> None:
        self._owed: dict[int, dict[int, Entry]] = {}
        """By node: the batches that its disk held, by base offset."""

    def wiped(self, node: SimulatedNode) -> None:
        """A wiped node returns only when its former copies no longer count."""
        self._owed.pop(int(node.node_id), None)

    def emptied(self, node: SimulatedNode) -> None:
        """Remember what its platter holds."""
        owed = self._owed.setdefault(int(node.node_id), {})
        offset, end_offset = 0, self.facts.platters.end_offset(node)
        while offset < end_offset:
            entry = self.facts.platters.entry_at(node, offset)
            if entry is None:
                entry = self.facts.committed.at(offset)  # A snapshot holds it.
            if entry is None:
                return
            owed[entry.base_offset] = entry
            offset = entry.end_offset

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Check whether the node takes part, and what it holds."""
        node_id = int(node.node_id)
        if node_id not in self._owed:
            return
        has_voted = spoken.candidate_id is not None or (spoken.granted is not None and not spoken.granted.is_pre_vote)
        if spoken.fetched is None and not has_voted and not spoken.confirms_leader:
            return
        ledger, does = self.facts.ledger(node), "votes" if has_voted else "counts"
        for offset, entry in self._owed.pop(node_id).items():
            is_missing = ledger.at(offset) != entry and ledger.begin.offset < entry.end_offset
            if is_missing and self.facts.committed.at(offset) == entry:
                seen = f"node {node.node_id} {does} with a log that ends at {ledger.end_offset}, its disk was emptied"
                raise self.violated(f"{seen}, and had held what is committed from {offset} to {entry.end_offset}")
