"""Whoever lost a part of its log votes again only with what is committed of it.

A record is committed because of the copies that voters told to hold. One that lost its copy and votes as if it had
never had it can elect, together with a voter that never had it, a leader without that record. So what was durable
behind the damage is owed: noted when the damage is found, whoever notes it, and looked for when the node is back,
by leaving quarantine or by starting without one. What of it was never committed, a leader may have replaced;
and a snapshot stands for all that it holds.

Source: ours; Raft paper §5.4.3 (Leader Completeness); Protocol-Aware Recovery for Consensus-Based Storage (FAST 2018).
"""

from __future__ import annotations

from pykraft.log.lane import Job, RemoveQuarantine, WriteQuarantine
from pykraft.sim.facts.facts import Facts
from pykraft.sim.invariants.invariant import Invariant
from pykraft.sim.machine.ledger import Entry
from pykraft.sim.machine.node import Node


class DamagedReturnsWhole(Invariant):
    """Nobody that lost a part of its log is out of quarantine without all that is committed of that part."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._owed: dict[int, dict[int, Entry]] = {}
        """By node: the batches that it held on disk behind the damage, by their base offsets."""
        self._noted: set[int] = set()
        """Nodes whose disk knows of the damage, or should."""

    def lost(self, node: Node) -> None:
        """What its disk had lied about it cannot know; but a note of damage lasts."""
        if int(node.node_id) not in self._noted:
            self._owed.pop(int(node.node_id), None)

    def wiped(self, node: Node) -> None:
        """It may come back when its former copies count for nothing any more."""
        self._owed.pop(int(node.node_id), None)
        self._noted.discard(int(node.node_id))

    def started(self, node: Node) -> None:
        """Recovery found damage, and noted it, or found a note; or neither."""
        if node.is_damaged:
            self._owes(node)
            self._noted.add(int(node.node_id))
        else:
            self._is_back(node)

    def submitted(self, node: Node, job: Job) -> None:
        """Damage is found while the node runs; or its quarantine is over."""
        if isinstance(job, WriteQuarantine):
            self._owes(node)
        elif isinstance(job, RemoveQuarantine):
            self._is_back(node)

    def persisted(self, node: Node) -> None:
        """What was found while the node runs is noted by now."""
        if node.is_damaged:
            self._noted.add(int(node.node_id))

    def _owes(self, node: Node) -> None:
        """Note what the platter holds behind the end of the log; nothing of it is cut yet."""
        assert node.host is not None
        owed = self._owed.setdefault(int(node.node_id), {})
        offset, end_offset = int(node.host.log_end_offset), self.facts.platters.end_offset(node)
        while offset < end_offset:
            entry = self.facts.platters.entry_at(node, offset)
            if entry is None:
                return  # a snapshot takes the place of the rest
            owed[entry.base_offset] = entry
            offset = entry.end_offset

    def _is_back(self, node: Node) -> None:
        self._noted.discard(int(node.node_id))
        ledger = self.facts.ledger(node)
        for offset, entry in self._owed.pop(int(node.node_id), {}).items():
            is_missing = ledger.at(offset) != entry and ledger.begin.offset < entry.end_offset
            if is_missing and self.facts.committed.at(offset) == entry:
                seen = f"node {node.node_id} is out of quarantine with a log that ends at {ledger.end_offset}"
                raise self.violated(
                    f"{seen}, and had held what is committed from {offset} to {entry.end_offset} in epoch {entry.epoch}"
                )
