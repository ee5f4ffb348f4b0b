"""Two logs with the same offset and epoch of a batch are identical up to that batch.

The oracle remembers each batch, with its checksum and the batch before it, when it is first appended anywhere. A node
that appends a batch of the same offset and epoch must have the same batch after the same one; by induction everything
before is the same, too. A batch that only one node ever had may be replaced: a leader that lost power before its first
record was durable, and before it told anybody, is a candidate of the same epoch again. Where a log begins at a
snapshot, the batch before is the committed one.

Source: Raft paper §5.3 (Log Matching); LogMatching of Vanlightly's specification of KRaft.
"""

from __future__ import annotations

from pykraft.log.lane import AppendBytes
from pykraft.sim.invariants.invariant import Invariant, Job, SimulatedNode
from pykraft.sim.machine.ledger import Entry


class LogMatching(Invariant):
    """An offset and an epoch identify one batch, and always the same batch before it."""

    def _begin(self) -> None:
        self._known: dict[tuple[int, int], tuple[Entry, Entry | None]] = {}
        self._only: dict[tuple[int, int], int] = {}
        """The only node that ever appended this batch."""

    def submitted(self, node: SimulatedNode, job: Job) -> None:
        """Compare an appended batch with its first appearance."""
        if not isinstance(job, AppendBytes):
            return
        ledger = self.facts.ledger(node)
        before = ledger.entries[-1] if ledger.entries else self.facts.committed.at(ledger.begin.offset - 1)
        for header, _ in job.batches:
            entry = Entry.of(header)
            key = (entry.base_offset, entry.epoch)
            self._note(key, int(node.node_id), (entry, before))
            known, known_before = self._known[key]
            where = f"at offset {entry.base_offset} of epoch {entry.epoch}"
            if known != entry:
                raise self.violated(f"node {node.node_id} appends another batch than was seen before {where}")
            if known_before != before:
                raise self.violated(
                    f"node {node.node_id} appends the batch {where} to another log than was seen before"
                )
            before = entry

    def _note(self, key: tuple[int, int], node_id: int, found: tuple[Entry, Entry | None]) -> None:
        if key not in self._known or self._only.get(key) == node_id:
            self._known[key] = found
            self._only[key] = node_id
        else:
            self._only.pop(key, None)
