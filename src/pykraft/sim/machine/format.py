"""Formats the disk of a node as ``pykraft storage format`` does, before its first process or after a replacement.

The code that formats a real node writes the directory id, ``meta.properties`` and the checkpoint with the first voters.
Everything it writes is durable when the call returns.

Source: KIP-853 §Bootstrapping; Kafka's ``Formatter`` (``--initial-controllers``, ``--no-initial-controllers``).
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.log.directory import LogDirectory
from pykraft.sim.machine.node import SimulatedNode
from pykraft.snapshot.writer import write_bootstrap
from pykraft.types import ReplicaKey, Uuid, VoterSet


def format_directory(node: SimulatedNode) -> None:
    """Write ``meta.properties``, with a random directory id unless the configuration has one."""
    opened = LogDirectory.open(
        node.disk,
        node.config.log_dir,
        node_id=node.node_id,
        cluster_id=node.config.cluster_id,
        directory_id=node.config.directory_id,
        random_uuid=lambda: Uuid(node.rng.randbytes(16)),
    )
    opened.release()
    node.key = ReplicaKey(node.node_id, opened.directory_id)


def format_voters(node: SimulatedNode, voters: VoterSet | None) -> None:
    """Write the bootstrap checkpoint with these voters; None on a node that joins other voters."""
    write_bootstrap(node.disk, node.config.partition_directory, voters)
    node.first_voters = voters or VoterSet()


def wipe_disk(node: SimulatedNode) -> None:
    """Take the power, and replace the disk by an empty one that works."""
    node.lose_power()
    node.disk.wipe()
    node.disk.io_errors.mend()
    node.disk.on_operation = None
    node.disk.liar = None


def replace_disk(node: SimulatedNode) -> None:
    """Take the power, and replace the disk: the node comes back with another directory id, to join the others."""
    wipe_disk(node)
    node.config = replace(node.config, directory_id=None, voters=VoterSet())
    format_directory(node)
    format_voters(node, None)
