"""Whether a node's disk says that the node may not take part yet: its directory may have been emptied, or is new.

Source: ours (ADR 022).
"""

from __future__ import annotations

from pykraft.errors import CorruptionError
from pykraft.log.small_files.meta import FILE_NAME as META
from pykraft.log.small_files.proof_file import FILE_NAME as PROOF
from pykraft.log.small_files.proof_file import parse_proof
from pykraft.sim.machine.node import SimulatedNode


def is_unproven(node: SimulatedNode) -> bool:
    """Whether its next start, or its present one, needs a proof from the other voters."""
    directory = node.disk.directory(node.config.log_dir)
    inode = directory.synced.get(PROOF) if directory is not None else None
    if inode is None:
        is_formatted = directory is not None and META in directory.synced
        return not is_formatted and node.disk.directory(node.config.partition_directory) is None
    try:
        return not parse_proof(node.config.log_dir / PROOF, inode.promised()).is_complete
    except CorruptionError:
        return True
