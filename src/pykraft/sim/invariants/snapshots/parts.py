"""The parts of snapshots that nobody completes are removed.

A snapshot that failed, or was given up, would otherwise hold its room until the next start.

Source: ours (ADR 134).
"""

from __future__ import annotations

from typing import Final

from pykraft.sim.invariants.invariant import Invariant, SimulatedNode, View
from pykraft.snapshot.files import FileKind, parse_snapshot_file

PARTS_MAX: Final = 2
"""One that is written, and one that is fetched."""


class PartsAreRemoved(Invariant):
    """When a node has a new snapshot, and at the end, it holds no more parts than it can be working on."""

    def changed(self, node: SimulatedNode, was: View, now: View) -> None:
        """Look when there is a new snapshot."""
        if now.snapshots != was.snapshots:
            self._look(node)

    def ended(self) -> None:
        """Look at all running nodes."""
        for node in self.facts.nodes.values():
            if node.process is not None:
                self._look(node)

    def _look(self, node: SimulatedNode) -> None:
        directory = node.disk.directory(node.config.partition_directory)
        files = [parse_snapshot_file(name) for name in directory.cached] if directory is not None else []
        parts = sum(file is not None and file.kind is FileKind.PART for file in files)
        if parts > PARTS_MAX and not node.disk.is_rotten:
            raise self.violated(f"node {node.node_id} holds {parts} parts of snapshots")
