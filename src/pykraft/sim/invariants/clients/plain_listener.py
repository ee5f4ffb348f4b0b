"""A listener that loads no snapshots gets everything that the log holds, in order, and is told what it missed.

It begins at the log start. When the log is cleaned beyond its position, it continues at the new log start and not
later, so it gets everything that the log still holds.

Source: ours; KIP-630 (what is below the log start is in a snapshot only).
"""

from __future__ import annotations

from collections.abc import Sequence

from pykraft.sim.invariants.invariant import CommittedBatch, Invariant, SimulatedNode


class PlainListenerMissesOnlyTheCleaned(Invariant):
    """Deliveries to a plain listener continue where the last one ended, or at the log start; it is told of each gap."""

    def _begin(self) -> None:
        self._next: dict[int, int] = {}

    def listens(self, node: SimulatedNode, start_offset: int) -> None:
        """The listener of a new process begins here."""
        self._next[int(node.node_id)] = start_offset

    def overheard(self, node: SimulatedNode, batches: Sequence[CommittedBatch]) -> None:
        """Compare with the end of the former batch."""
        for batch in batches:
            expected = self._next[int(node.node_id)]
            if batch.base_offset != expected:
                raise self.violated(f"node {node.node_id} gives offset {batch.base_offset}, {expected} is next")
            self._next[int(node.node_id)] = batch.end_offset

    def skipped(self, node: SimulatedNode, next_offset: int, start_offset: int) -> None:
        """Compare the gap with the listener's position and the log start."""
        expected = self._next[int(node.node_id)]
        log_start_offset = node.status.log_start_offset if node.status is not None else start_offset
        if next_offset != expected or not expected < start_offset <= log_start_offset:
            seen = f"node {node.node_id} tells of a gap from {next_offset} to {start_offset}"
            raise self.violated(f"{seen}; {expected} is next, and the log begins at {log_start_offset}")
        self._next[int(node.node_id)] = start_offset
