"""Who only reads a directory takes the same recovery point as the node that opens it.

The older of the file's two slots may be below what was synced since, so that damage would look like a torn tail, or
above what was truncated since.

Source: ours (ADR 059); Kafka has no such file.
"""

from __future__ import annotations

from random import Random

from pykraft.errors import CorruptionError
from pykraft.log.small_files.recovery_point import FILE_NAME, Point, RecoveryPoint, parse_recovery_point
from pykraft.sim.invariants.invariant import Invariant, SimulatedNode
from pykraft.sim.machine.disk import ROOT, VirtualDisk


class OfflineReadersSeeTheNewest(Invariant):
    """Before each start, reading ``recovery-point`` offline gives the offsets that the node gets when it opens it."""

    def starting(self, node: SimulatedNode) -> None:
        """Read the file, and open a copy."""
        content = node.disk.content(node.config.partition_directory / FILE_NAME)
        if content is None:
            return
        read, opened = _read(bytes(content)), _open(bytes(content))
        if read != opened:
            raise self.violated(f"node {node.node_id} opens its recovery point as {opened}, offline it reads as {read}")


def _read(content: bytes) -> Point | None:
    try:
        return parse_recovery_point(ROOT / FILE_NAME, content)
    except CorruptionError:
        return None


def _open(content: bytes) -> Point | None:
    copy = VirtualDisk(Random(0))  # Opening writes.
    copy.put_back({ROOT / FILE_NAME: content})
    try:
        point = RecoveryPoint.open(copy, ROOT)
    except CorruptionError:
        return None
    assert point is not None
    return Point(point.offset, point.committed_end_offset)
