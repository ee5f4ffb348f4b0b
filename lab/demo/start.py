"""Starts the demo's nodes; retries on other ports if another process took one, and checks that the nodes live."""

from __future__ import annotations

from pathlib import Path

from lab.demo.failures import ended
from lab.demo.options import DemoOptions
from pykraft.client.journal import Led
from pykraft.errors import LocalQuorumError
from pykraft.local.child import Children
from pykraft.local.cluster import Cluster
from pykraft.local.progress import ReportProgress

START_TRIES_MAX = 3
PORT_IS_TAKEN = "cannot be bound"
"""Output of a node whose port another process took before its start."""


def start_cluster(children: Children, folder: Path, options: DemoOptions, tell: ReportProgress) -> tuple[Cluster, Led]:
    """A cluster with a leader; retries on other ports, in a new folder, if another process took a port first.

    Errors: LocalQuorumError if there is no leader; StorageError if the disk is full.
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
                look_after(cluster, folder)  # raises with the reason if a node has ended
                raise
        tell("another process took a port; restarting on other ports")
        for node in cluster.nodes.values():
            node.process.kill()
    raise AssertionError("the last try either returns or raises")


def look_after(cluster: Cluster, folder: Path) -> None:
    """Errors: LocalQuorumError if a node has ended, StorageError if it ended because the disk is full."""
    for node in cluster.nodes.values():
        if node.process.status is not None:
            raise ended(folder, node.process)
