"""What a power loss now could not take away from a node: read from the platter of its virtual disk.

Reads the same files that recovery would, and only their synced bytes; what it has read it keeps until the
file is synced again.
"""

from __future__ import annotations

import json
from pathlib import Path

from pykraft.errors import ProtocolError
from pykraft.protocol.records import scan
from pykraft.sim.disk import Inode, VirtualDisk

LOG_SUFFIX = ".log"


class Platter:
    """Durable epoch and durable log end of one node."""

    def __init__(self, disk: VirtualDisk, partition: Path) -> None:
        self._disk = disk
        self._partition = partition
        self._segments: dict[str, tuple[Inode, int, int | None]] = {}
        self._election: tuple[Inode, int, int] | None = None

    def epoch(self) -> int:
        """Epoch in the durable ``quorum-state``; 0 without one."""
        inode = self._disk.synced_file(self._partition / "quorum-state")
        if inode is None:
            return 0
        if self._election is None or self._election[:2] != (inode, inode.version):
            content = bytes(inode.synced)
            epoch = int(json.loads(content)["leaderEpoch"]) if content else 0
            self._election = (inode, inode.version, epoch)
        return self._election[2]

    def end_offset(self) -> int:
        """End offset (exclusive) of the whole and valid batches on the platter."""
        end_offset = 0
        for name in self._disk.synced_names(self._partition):
            if name.endswith(LOG_SUFFIX):
                end_offset = self._segment_end(name) or end_offset
        return end_offset

    def _segment_end(self, name: str) -> int | None:
        inode = self._disk.synced_file(self._partition / name)
        assert inode is not None
        known = self._segments.get(name)
        if known is None or known[:2] != (inode, inode.version):
            known = (inode, inode.version, _end_of(bytes(inode.synced)))
            self._segments[name] = known
        return known[2]


def _end_of(content: bytes) -> int | None:
    """End offset of the last batch before the bytes stop making sense; None when there is none."""
    end_offset = None
    try:
        for _, header in scan(content, verify_crc=True):
            end_offset = int(header.end_offset)
    except ProtocolError:
        pass
    return end_offset
