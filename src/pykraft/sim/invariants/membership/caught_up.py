"""A leader adds only voters that have caught up with its log.

A voter that is far behind does not help: if the majority needs it, nothing can be committed while it catches up.

Source: KIP-853 §AddRaftVoter; Raft dissertation §4.2.1 (catching up new servers); Kafka
``LeaderState.isReplicaCaughtUp``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, VoterRecord
from pykraft.types import ReplicaKey


class NewVoterHasCaughtUp(Invariant):
    """A new voter has fetched from its leader at an offset beyond the first record of the epoch."""

    def _begin(self) -> None:
        self._asked: dict[tuple[ReplicaKey, int], int] = {}
        """Highest fetch offset, by replica and epoch."""

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember how far each replica is."""
        if spoken.fetched is not None:
            key = (node.key, spoken.epoch)
            self._asked[key] = max(self._asked.get(key, 0), spoken.fetched.offset)

    def voters_written(self, node: SimulatedNode, record: VoterRecord, _committed_end: int) -> None:
        """Check the new voters."""
        epoch, before = record.entry.epoch, self.facts.members.voters_of(node)
        ledger = self.facts.ledger(node)
        begins = (each.base_offset for each in ledger.entries if each.epoch == epoch)
        begin = next(begins, None) if ledger.begin.epoch < epoch else 0  # cleaned: any Fetch of this epoch will do
        for voter in record.voters.voters:
            is_new = before.get(voter.key.id) is None
            if is_new and begin is not None and self._asked.get((voter.key, epoch), 0) <= begin:
                seen = f"leader {node.node_id} of epoch {epoch}, which began at {begin}, adds voter {voter.key.id}"
                raise self.violated(f"{seen}, which has {self._asked.get((voter.key, epoch), 0)}")
