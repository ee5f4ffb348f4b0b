"""A snapshot contains the committed log up to its end, and nothing else.

Its records name every batch that led to it. So the oracle notices a snapshot that was taken too early, too late or of
another history, or that has a wrong id.

Source: KIP-630 §Design (a snapshot holds committed records only, and its id is the end offset and epoch of the last of
them); Kafka ``RaftEventSimulationTest`` (ConsistentCommittedData).
"""

from __future__ import annotations

from pykraft.sim.facts.application_state import read_snapshot
from pykraft.sim.invariants.invariant import NewSnapshotInvariant, OffsetAndEpoch, SimulatedNode


class SnapshotIsCommitted(NewSnapshotInvariant):
    """The batches in a snapshot are the committed ones before its end, and the last one has the snapshot's epoch."""

    def _begin(self) -> None:
        self._sound: set[tuple[OffsetAndEpoch, bytes]] = set()

    def judge(self, node: SimulatedNode, snapshot_id: OffsetAndEpoch, content: bytes | None) -> None:
        """Compare its batches with the committed ones."""
        found = None if content is None else read_snapshot(content)
        if content is None or found is None or (snapshot_id, content) in self._sound:
            return
        batches = found.state.entries
        committed = self.facts.committed.entries[: len(batches)]
        seen = f"node {node.node_id} has a snapshot up to {snapshot_id.offset} of epoch {snapshot_id.epoch}"
        last = batches[-1] if batches else None
        if last is None or (last.end_offset, last.epoch) != (snapshot_id.offset, snapshot_id.epoch):
            raise self.violated(f"{seen}, its last batch is {last}")
        if batches != committed:
            other = next((each for each in zip(batches, committed, strict=False) if each[0] != each[1]), "less")
            raise self.violated(f"{seen}; held and committed is {other}")
        self._sound.add((snapshot_id, content))
