"""Two consecutive voter sets differ by one voter at most.

Then any majority of one and any majority of the other have a member in common. An upgrade of kraft.version changes no
voters: it adds the directory ids of all configured voters. The first batch of a leader repeats the checkpoint of a
formatted quorum, or updates the leader's endpoints.

Source: KIP-853; Raft dissertation §4.1; Kafka ``VoterSet.hasOverlappingMajority``.
"""

from __future__ import annotations

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, VoterRecord
from pykraft.types import VoterSet


class VotersChangeByOne(Invariant):
    """A new voter set adds one voter, removes one, or changes the entries of the same voters."""

    def voters_written(self, node: SimulatedNode, record: VoterRecord, _committed_end: int) -> None:
        """Compare it with the set in force."""
        before, after = self.facts.members.voters_of(node), record.voters
        keys_before, keys_after = ({voter.key for voter in voters.voters} for voters in (before, after))
        is_upgrade = record.level is not None and not record.is_opening
        is_right = before.ids == after.ids if is_upgrade else len(keys_before ^ keys_after) <= (not record.is_opening)
        if not is_right or any(key.directory_id is None for key in keys_after):
            seen = f"leader {node.node_id} of epoch {record.entry.epoch} writes the voters {_told(after)}"
            raise self.violated(f"{seen} after {_told(before)}")


def _told(voters: VoterSet) -> str:
    return ", ".join(f"{voter.key.id}:{(voter.key.directory_id or b'?').hex()[:4]}" for voter in voters.voters)
