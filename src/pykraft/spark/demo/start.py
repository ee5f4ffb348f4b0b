"""Starts the demo's nodes, on other ports when a stranger was quicker, and looks whether they live.

Owns the tries. It refuses to know the load and Spark.
"""

from __future__ import annotations

from pathlib import Path

from pykraft.client.journal import Led
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.spark.demo.failures import ended
from pykraft.spark.demo.options import DemoOptions
from pykraft.spark.demo.progress import Tell

START_TRIES_MAX = 3
PORT_IS_TAKEN = "cannot be bound"
"""What a node says that lost its port to a stranger between the choice and its start."""


def start_cluster(children: Children, folder: Path, options: DemoOptions, tell: Tell) -> tuple[Cluster, Led]:
    """A cluster with a leader; on other ports and in a folder of its own, if it lost its ports before it had them.

    Errors: LocalQuorumError when there is no leader; StorageError when the disk is full.
    """
    for left in reversed(range(START_TRIES_MAX)):
        home = folder if left == START_TRIES_MAX - 1 else folder / f"again-{left}"
        home.mkdir(exist_ok=True)
        cluster = Cluster(
            children,
            home,
            size=options.nodes,
            throughput=options.throughput,
            record_size_bytes=options.record_size_bytes,
        )
        try:
            return cluster, cluster.start()
        except LocalQuorumError:
            if left == 0 or not any(PORT_IS_TAKEN in node.process.log() for node in cluster.nodes.values()):
                look_after(cluster, folder)  # one that ended says why
                raise
        tell("somebody took a port; starting again on others")
        for node in cluster.nodes.values():
            node.process.kill()
    raise AssertionError("the last try either returns or raises")


def look_after(cluster: Cluster, folder: Path) -> None:
    """Errors: LocalQuorumError when a node has ended, StorageError when that was for want of room."""
    for node in cluster.nodes.values():
        if node.process.status is not None:
            raise ended(folder, node.process)
