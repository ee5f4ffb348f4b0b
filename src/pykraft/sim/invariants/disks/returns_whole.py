"""A voter that lost a part of its log votes again only when it holds every committed record of that part.

A record is committed because voters acknowledged their copies. If a voter lost its copy and voted as if it had never
had it, it could elect, together with a voter that never had it, a leader without that record. So the oracle remembers
the durable batches after the damage when the damage is found, and looks for them when the node is back, either after
its quarantine or by starting without one. A leader may have replaced those that were never committed, and a snapshot
counts for everything that it holds.

Source: ours; Raft paper §5.4.3 (Leader Completeness); Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018).
"""

from __future__ import annotations

from pykraft.core.effects import EnterQuarantine, LeaveQuarantine
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode
from pykraft.sim.machine.ledger import Entry


class DamagedReturnsWhole(Invariant):
    """No node leaves quarantine while it lacks committed records of the part of its log that it lost."""

    def _begin(self) -> None:
        self._owed: dict[int, dict[int, Entry]] = {}
        """By node: the batches that its disk held after the damage, by base offset."""
        self._noted: set[int] = set()
        """Nodes whose disk records the damage, or should."""

    def lost(self, node: SimulatedNode) -> None:
        """The node cannot know that its disk lied; but damage that is recorded stays recorded."""
        if int(node.node_id) not in self._noted:
            self._owed.pop(int(node.node_id), None)

    def wiped(self, node: SimulatedNode) -> None:
        """A wiped node returns only when its former copies no longer count."""
        self._owed.pop(int(node.node_id), None)
        self._noted.discard(int(node.node_id))

    def started(self, node: SimulatedNode) -> None:
        """Recovery found damage and recorded it, or found a record of it, or neither."""
        if node.is_damaged:
            self._owes(node)
            self._noted.add(int(node.node_id))
        else:
            self._is_back(node)

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """The running node found damage, or its quarantine is over."""
        if isinstance(job, EnterQuarantine):
            self._owes(node)
        elif isinstance(job, LeaveQuarantine):
            self._is_back(node)

    def persisted(self, node: SimulatedNode) -> None:
        """Damage that the running node found is recorded by now."""
        if node.is_damaged:
            self._noted.add(int(node.node_id))

    def _owes(self, node: SimulatedNode) -> None:
        """Remember what the platter holds beyond the end of the log; nothing of it has been cut off yet."""
        assert node.status is not None
        owed = self._owed.setdefault(int(node.node_id), {})
        offset, end_offset = int(node.status.log_end_offset), self.facts.platters.end_offset(node)
        while offset < end_offset:
            entry = self.facts.platters.entry_at(node, offset)
            if entry is None:
                return  # A snapshot replaces the rest.
            owed[entry.base_offset] = entry
            offset = entry.end_offset

    def _is_back(self, node: SimulatedNode) -> None:
        self._noted.discard(int(node.node_id))
        ledger = self.facts.ledger(node)
        for offset, entry in self._owed.pop(int(node.node_id), {}).items():
            is_missing = ledger.at(offset) != entry and ledger.begin.offset < entry.end_offset
            if is_missing and self.facts.committed.at(offset) == entry:
                seen = f"node {node.node_id} is out of quarantine with a log that ends at {ledger.end_offset}"
                raise self.violated(
                    f"{seen}, and had held what is committed from {offset} to {entry.end_offset} in epoch {entry.epoch}"
                )
