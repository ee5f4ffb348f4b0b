"""Formatting the disk of a node as ``pykraft storage format`` does, before its first process, or for a new disk.

Owns nothing but the calls: directory id, ``meta.properties`` and the checkpoint that says who votes first are written
by the code that writes them for a real node. What it writes is durable.

Source: KIP-853 §Bootstrapping; Kafka's ``Formatter`` (``--initial-controllers``, ``--no-initial-controllers``).
"""

from __future__ import annotations

from dataclasses import replace

from pykraft.log.directory import Directory
from pykraft.sim.machine.node import Node
from pykraft.snapshot.bootstrap import write_bootstrap
from pykraft.types import ReplicaKey, Uuid, VoterSet


def format_directory(node: Node) -> None:
    """Give the log directory an identity, with a directory id at random unless the configuration has one."""
    opened = Directory.open(
        node.disk,
        node.config.log_dir,
        node_id=node.node_id,
        cluster_id=node.config.cluster_id,
        directory_id=node.config.directory_id,
        random_uuid=lambda: Uuid(node.rng.randbytes(16)),
    )
    opened.release()
    node.key = ReplicaKey(node.node_id, opened.directory_id)


def format_voters(node: Node, voters: VoterSet | None) -> None:
    """Write the checkpoint: these vote first; None on a node that joins others."""
    write_bootstrap(node.disk, node.config.partition_directory, voters)
    node.first_voters = voters or VoterSet()


def wipe_disk(node: Node) -> None:
    """The machine goes down, and has an empty disk that works when it comes back."""
    node.lose_power()
    node.disk.wipe()
    node.disk.io_errors.mend()
    node.disk.on_operation = None
    node.disk.liar = None


def replace_disk(node: Node) -> None:
    """The machine goes down, and will come back with an empty disk and another directory id, to join the others."""
    wipe_disk(node)
    node.config = replace(node.config, directory_id=None, voters=VoterSet())
    format_directory(node)
    format_voters(node, None)
