"""A snapshot names the voters in force at its end in the committed log.

A voter record at its end or beyond does not count, because it may still be truncated. Older voters would be wrong,
because a replica that installs the snapshot has no other source for them.

Source: KIP-853 §Snapshots; Kafka ``KRaftControlRecordStateMachine.voterSetAtOffset``.
"""

from __future__ import annotations

from pykraft.sim.facts.application_state import read_snapshot
from pykraft.sim.invariants.invariant import NewSnapshotInvariant, OffsetAndEpoch, SimulatedNode


class SnapshotNamesItsVoters(NewSnapshotInvariant):
    """The voters in a frozen snapshot are those of the newest committed record before its end."""

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Compare its voters with the committed ones."""
        found = None if content is None else read_snapshot(content)
        if found is None:
            return
        before = [each for each in self.facts.members.electorate.records if each.offset < snapshot_id.offset]
        newest = next((each for each in reversed(before) if self.facts.members.is_committed(each.entry)), None)
        if newest is not None and found.voters != newest.voters:
            named = None if found.voters is None else [*found.voters.ids]
            seen = f"node {node.node_id} has a snapshot up to {snapshot_id.offset} that names the voters {named}"
            raise self.violated(f"{seen}; at {newest.offset} they are {[*newest.voters.ids]}, and that is committed")
