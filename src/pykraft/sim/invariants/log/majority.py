"""Everything below the high watermark is durable on a majority: the same records, not just as many.

A copy counts if a power loss now could not remove it, on voters that run and on voters that do not. The voters are
those of the leader's log at that time, committed or not: a leader that they do not include has no copy that counts.
Some acknowledgments of a disk still count after the disk is gone. Without directory ids, a voter whose disk was wiped
counts until it may return: its last Fetch may still be under way, and it does not vote meanwhile. With directory ids,
the last Fetch of the old disk counts for what it says. The same holds for the last Fetch of a voter that has found
damage since: it takes no part before it holds all of that again (DamagedReturnsWhole).

Source: Raft paper §5.3 (committed entries); KIP-853; Kafka ``RaftEventSimulationTest.MajorityReachedHighWatermark``,
made stricter: Kafka compares log ends in memory. KIP-630: a snapshot stands for the records before its end.
"""

from __future__ import annotations

from pykraft.core.quorum import majority_of
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, Spoken, View
from pykraft.types import ReplicaKey


class MajorityHoldsHighWatermark(Invariant):
    """A majority of the voters has the leader's last committed batch on disk when the high watermark reaches it."""

    def _begin(self) -> None:
        self._checked = 0
        self._told: dict[ReplicaKey, tuple[int, int]] = {}
        """Epoch and offset of the last Fetch of each disk."""
        self._former: dict[int, tuple[int, int]] = {}
        """By node: the same for a disk that was wiped since."""

    def wiped(self, node: SimulatedNode) -> None:
        """Its last Fetch may still be counted, or be under way."""
        if node.key in self._told:
            self._former[int(node.node_id)] = self._told.pop(node.key)

    def before_send(self, node: SimulatedNode, spoken: Spoken) -> None:
        """Remember the acknowledgment."""
        if spoken.fetched is not None:
            self._told[node.key] = (spoken.epoch, spoken.fetched.offset)

    def changed(self, node: SimulatedNode, _was: View, now: View) -> None:
        """Check when a leader's high watermark rises above all former ones."""
        high_watermark = now.high_watermark
        if not now.has_led or high_watermark is None or high_watermark <= self._checked:
            return
        self._checked = high_watermark
        last = self.facts.ledger(node).at(high_watermark - 1)
        voters = self.facts.members.voters_of(node)
        holding = [
            int(voter.node_id)
            for voter in self.facts.members.nodes_of(voters)
            if self._has_reached(self._former.get(int(voter.node_id)), now)
            or (voter.is_damaged and self._has_reached(self._told.get(voter.key), now))
            or (last is not None and self.facts.platters.holds(voter, last))
        ]
        holding += [
            int(key.id) for key in self.facts.members.replaced_in(voters) if self._has_reached(self._told.get(key), now)
        ]
        if last is None or len(holding) < majority_of(len(voters)):
            seen = f"leader {node.node_id} of epoch {now.epoch} calls {high_watermark} committed"
            raise self.violated(
                f"{seen}, of the voters {[*map(int, voters.ids)]} only {holding} have its last batch on disk"
            )

    @staticmethod
    def _has_reached(told: tuple[int, int] | None, leader: View) -> bool:
        """Whether a disk that is gone or damaged has acknowledged as much to this leader."""
        epoch, offset = told or (0, 0)
        return epoch == leader.epoch and offset >= (leader.high_watermark or 0)
