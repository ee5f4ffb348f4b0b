"""Which files of a node still say that the epoch of a batch in its log is wrong.

No CRC covers a batch's epoch. A running node knows the epochs of its log, but after a restart only two files do:
``leader-epoch-checkpoint``, and ``quarantine`` for the places that the node has found before. Suppose that batches have
the epochs 2 2 2 3 3, one flipped bit makes them 2 2 3 3 3, and another makes the checkpoint unreadable. Each batch is
whole, the epochs ascend, and ``quorum-state`` knows them: somebody could have written this log, so no program can tell.

Faults must leave one witness, as they leave intact copies of a record (`pykraft.sim.facts.atlas`).

Source: `pykraft.log.judge`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from pykraft.errors import CorruptionError, ProtocolError
from pykraft.log.small_files.epoch_checkpoint import FILE_NAME as EPOCHS
from pykraft.log.small_files.quarantine_file import FILE_NAME as QUARANTINE
from pykraft.log.small_files.quarantine_file import parse_quarantine
from pykraft.protocol.batch import scan
from pykraft.sim.facts.platter import LOG_SUFFIX
from pykraft.sim.machine.inode import Directory, Inode
from pykraft.sim.machine.node import SimulatedNode
from pykraft.types import Offset

_EPOCH_AT = range(12, 16)
"""Where a batch has its epoch."""


def is_last_witness(node: SimulatedNode, name: str, position: int) -> bool:
    """Whether a flip at this position of a file could leave a wrong epoch in the log that no file contradicts."""
    directory = node.disk.directory(node.config.partition_directory)
    assert directory is not None, "the file is in it"
    if name == EPOCHS:
        return bool(_wrong_epochs(directory) - _noted(node, directory))
    if not name.endswith(LOG_SUFFIX) or position not in _epoch_positions(directory.synced[name]):
        return False
    checkpoint = directory.synced.get(EPOCHS)
    return checkpoint is None or checkpoint.is_rotten


def _wrong_epochs(directory: Directory) -> set[Offset]:
    """Base offsets of the batches whose epoch on the platter is not the one that was written."""
    logs = [inode for name, inode in directory.synced.items() if name.endswith(LOG_SUFFIX) and inode.is_rotten]
    return {
        offset
        for inode in logs
        for start, offset in _batches(inode)
        if any(inode.is_rotten_at(start + at) for at in _EPOCH_AT)
    }


def _noted(node: SimulatedNode, directory: Directory) -> set[Offset]:
    """Where the node has noted damage, durably."""
    inode = directory.synced.get(QUARANTINE)
    with suppress(CorruptionError):
        if inode is not None:
            note = parse_quarantine(node.config.partition_directory / QUARANTINE, inode.promised())
            return {damage.start_offset for damage in note.damages}
    return set()


def _epoch_positions(inode: Inode) -> set[int]:
    return {start + at for start, _ in _batches(inode) for at in _EPOCH_AT}


def _batches(inode: Inode) -> Iterator[tuple[int, Offset]]:
    """Position and base offset of each batch as it was written."""
    with suppress(ProtocolError):  # The log may end with a torn write.
        for start, header in scan(inode.promised(), verify_crc=False):
            yield start, header.base_offset
