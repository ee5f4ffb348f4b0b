"""Index files match the log next to them.

When a log has indexes, Kafka opens it without reading it and looks records up in them; so does anybody who copies a
directory for Kafka's tools. A wrong entry would send a reader into the middle of a batch.

Source: Kafka ``OffsetIndex`` and ``TimeIndex`` (entries, their order, and what they point to).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

from pykraft.protocol.batch import scan
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode
from pykraft.sim.machine.disk import Directory

LOG: Final = ".log"
OFFSETS: Final = (".index", struct.Struct(">ii"))
TIMES: Final = (".timeindex", struct.Struct(">qi"))


class IndexesAreOfTheirLogs(Invariant):
    """Each index entry matches a batch in position, last offset and timestamp."""

    def started(self, node: SimulatedNode) -> None:
        """Recovery has rewritten the indexes."""
        self._look(node)

    def ended(self) -> None:
        """Check all indexes at the end, except on nodes in the middle of storage jobs."""
        for node in self.facts.nodes.values():
            if node.process is not None and node.process.ordered.is_idle:
                self._look(node)

    def _look(self, node: SimulatedNode) -> None:
        directory = node.disk.directory(node.config.partition_directory)
        if directory is None or node.is_damaged or node.disk.is_rotten:
            return
        for name in directory.cached:
            if name.endswith(LOG):
                self._compare(node, directory, name.removesuffix(LOG))

    def _compare(self, node: SimulatedNode, directory: Directory, stem: str) -> None:
        positions: dict[int, int] = {}
        times: set[tuple[int, int]] = set()
        for position, header in scan(bytes(directory.cached[stem + LOG].cached), verify_crc=False):
            last_delta = header.last_offset - int(stem)
            positions[last_delta] = position
            times.add((header.max_timestamp, last_delta))
        offset_entries, time_entries = (list(_entries(directory, stem, *kind)) for kind in (OFFSETS, TIMES))
        wrong = [entry for entry in offset_entries if positions.get(entry[0]) != entry[1]]
        wrong += [entry for entry in time_entries if entry not in times]
        if wrong:
            raise self.violated(f"node {node.node_id} has entries of segment {stem} that nothing stands for: {wrong}")
        if offset_entries != sorted(set(offset_entries)) or time_entries != sorted(set(time_entries)):
            raise self.violated(f"node {node.node_id} has entries of segment {stem} out of order")


def _entries(directory: Directory, stem: str, suffix: str, layout: struct.Struct) -> Iterator[tuple[int, int]]:
    """The entries of an index; a file that still grows ends with zeros."""
    inode = directory.cached.get(stem + suffix)
    content = bytes(inode.cached) if inode is not None else b""
    whole = content[: len(content) - len(content) % layout.size]
    for first, second in layout.iter_unpack(whole):
        if not (first or second):
            return
        yield first, second
