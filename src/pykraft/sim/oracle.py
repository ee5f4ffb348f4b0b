"""What a power loss now could not take away from a node: read from the platter of its virtual disk.

Reads the same files that recovery would, and only their synced bytes; what it has read it keeps until the
file is synced again. It shares no code with recovery but the reading of a batch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from pykraft.errors import ProtocolError
from pykraft.protocol.records import scan
from pykraft.sim.disk import Directory, Inode, VirtualDisk

LOG_SUFFIX = ".log"


@dataclass(frozen=True, slots=True, kw_only=True)
class DurableElection:
    """What a ``quorum-state`` remembers."""

    epoch: int = 0
    voted_id: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Extent:
    """The sound batches at the beginning of a segment; offsets as in the batches, ``end_offset`` exclusive."""

    end_offset: int
    is_whole: bool
    """True when nothing follows them."""


class Platter:
    """Durable election and durable log end of one node."""

    def __init__(self, disk: VirtualDisk, partition: Path) -> None:
        self._disk = disk
        self._partition = partition
        self._directory: Directory | None = None
        self._extents: dict[str, tuple[Inode, int, _Extent]] = {}
        self._election: tuple[Inode, int, DurableElection] | None = None

    def election(self) -> DurableElection:
        """The durable ``quorum-state``; epoch 0 without one."""
        inode = self._names().get("quorum-state")
        if inode is None:
            return DurableElection()
        known = self._election
        if known is None or known[0] is not inode or known[1] != inode.version:
            known = self._election = (inode, inode.version, _election_in(bytes(inode.synced)))
        return known[2]

    def end_offset(self) -> int:
        """End offset (exclusive) of the batches on the platter that stand without a gap from 0 on."""
        end_offset = 0
        names = self._names()
        for name in sorted(name for name in names if name.endswith(LOG_SUFFIX)):
            if int(name.removesuffix(LOG_SUFFIX)) != end_offset:
                break
            extent = self._extent(name, names[name], end_offset)
            end_offset = extent.end_offset
            if not extent.is_whole:
                break
        return end_offset

    def _names(self) -> dict[str, Inode]:
        """Durable names of the partition directory; none before it is made."""
        if self._directory is None:
            self._directory = self._disk.directory(self._partition)
        return self._directory.synced if self._directory is not None else {}

    def _extent(self, name: str, inode: Inode, base_offset: int) -> _Extent:
        known = self._extents.get(name)
        if known is None or known[0] is not inode or known[1] != inode.version:
            known = (inode, inode.version, _extent_of(bytes(inode.synced), base_offset))
            self._extents[name] = known
        return known[2]


def _election_in(content: bytes) -> DurableElection:
    if not content:
        return DurableElection()
    fields = json.loads(content)
    voted_id = int(fields["votedId"])
    return DurableElection(epoch=int(fields["leaderEpoch"]), voted_id=None if voted_id < 0 else voted_id)


def _extent_of(content: bytes, base_offset: int) -> _Extent:
    """The batches before the bytes stop making sense."""
    end_offset, epoch, size_bytes = base_offset, 0, 0
    try:
        for position, header in scan(content, verify_crc=True):
            if header.base_offset != end_offset or header.epoch < epoch:
                break
            end_offset, epoch, size_bytes = header.end_offset, header.epoch, position + header.size_bytes
    except ProtocolError:
        pass
    return _Extent(end_offset=end_offset, is_whole=size_bytes == len(content))
