"""Takes the room for snapshots away while the log has some, on all disks at once.

The segment and the small files get room beyond their ends by fallocate, then the disk is filled. So the kernel's ENOSPC
hits every file that needs a new block, and among those that a node writes between two elections only the snapshots do.
Invariant: no node ends because of a snapshot, and each says that it failed; once there is room, each writes one.

A run compares whole logs, and a leader gives an empty replica its newest snapshot. So nodes take snapshots during this
fault only, and those are removed at its end, while the nodes are down.

Source: ADR 134; fallocate(2).
"""

import ctypes
import operator
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from lab.chaos.disks import call
from lab.chaos.ground import Ground
from lab.chaos.second_process import STORAGE_FAILED
from lab.nodes.cluster import PykraftNode
from pykraft.errors import LocalQuorumError
from pykraft.local.child import wait_until

OPTIONS: Final = (
    "--override=metadata.log.max.snapshot.interval.ms=3000",
    "--override=metadata.max.retention.bytes=-1",
    "--override=metadata.max.retention.ms=-1",
)
"""A node with these takes a snapshot every 3 s, and deletes nothing."""
ALARM: Final = "NO SNAPSHOT WRITTEN: "
CHECKPOINT: Final = ".checkpoint"
BOOTSTRAP: Final = "00000000000000000000-0000000000.checkpoint"
"""The first voter set of a dynamic quorum, which `storage format` wrote."""
KEEP_SIZE: Final = 1
LOG_BYTES: Final = 16 * 1024**2
INDEX_BYTES: Final = 4 * 1024**2
SMALL_FILE_BYTES: Final = 65_536
RECORDS: Final = 100
LOOK_INTERVAL_S: Final = 0.1


class SnapshotRoom:
    """The room for snapshots of all nodes with a disk of their own; the nodes run with `OPTIONS`."""

    def __init__(self, ground: Ground, require_life: Callable[[], None]) -> None:
        """``require_life`` raises an error if a node has ended that may not."""
        self._ground = ground
        self._require_life = require_life
        self._nodes = [ground.cluster.nodes[node_id] for node_id in ground.disk_indexes]

    def take(self) -> None:
        """Fill the disks, and wait until each node has said that it wrote no snapshot, and records are acknowledged.

        Errors: LocalQuorumError.
        """
        begin_sizes = {node.node_id: node.log_path.stat().st_size for node in self._nodes}
        for node in self._nodes:
            _reserve(node.partition)

        def is_reported_by(node: PykraftNode) -> bool:
            assert self._ground.disks is not None
            # Again and again: the kernel gives back what it had set aside for bytes that it had not written yet.
            self._ground.disks.fill(self._ground.disk_indexes[node.node_id])
            return _is_reported(node, begin_sizes)

        self._wait(is_reported_by, "to say that they wrote no snapshot")
        if not any(_ended_otherwise(node) for node in self._nodes):
            journal = self._ground.cluster.journal
            journal.wait_for_acknowledged(RECORDS, since=journal.mark())

    def give(self) -> None:
        """Make room, and wait until each node has written a snapshot. Errors: LocalQuorumError."""
        assert self._ground.disks is not None
        before = {node.node_id: _snapshots(node) for node in self._nodes}
        for index in self._ground.disk_indexes.values():
            self._ground.disks.make_room(index)
        self._wait(lambda node: bool(_snapshots(node) - before[node.node_id]), "to write a snapshot")

    def remove_snapshots(self) -> None:
        """Remove all snapshots of nodes that are down; their logs are whole."""
        for node in self._nodes:
            for path in node.partition.glob(f"*{CHECKPOINT}*"):
                if path.name != BOOTSTRAP:
                    path.unlink()

    def _wait(self, is_done: Callable[[PykraftNode], bool], what: str) -> None:
        def are_done() -> bool:
            self._require_life()
            ended = [_ended_otherwise(node) for node in self._nodes]
            done = [is_done(node) for node in self._nodes]
            return all(map(operator.or_, ended, done))

        wait_until(are_done, f"nodes without room for snapshots {what}", interval_s=LOOK_INTERVAL_S)


def _ended_otherwise(node: PykraftNode) -> bool:
    """True if the node ended because it had no room for something else: an election writes new files.

    Errors: LocalQuorumError if it ended because of a snapshot.
    """
    if node.process.status is None:
        return False
    last_line = node.log_path.read_text().rstrip("\n").rpartition("\n")[2]
    if node.process.status != STORAGE_FAILED or CHECKPOINT in last_line:
        raise LocalQuorumError(f"node {node.node_id} ended without room for a snapshot: {last_line}")
    return True


def _is_reported(node: PykraftNode, begin_sizes: Mapping[int, int]) -> bool:
    with node.log_path.open("rb") as log:
        log.seek(begin_sizes[node.node_id])
        return ALARM.encode() in log.read()


def _snapshots(node: PykraftNode) -> frozenset[str]:
    return frozenset(path.name for path in node.partition.glob(f"*{CHECKPOINT}"))


def _reserve(partition: Path) -> None:
    """Give each file but the snapshots room that only it can use."""
    for path in partition.iterdir():
        if path.suffix == ".log":
            _allocate(path, path.stat().st_size + LOG_BYTES)
        elif path.suffix in (".index", ".timeindex"):
            _allocate(path, INDEX_BYTES)
        elif path.is_file() and CHECKPOINT not in path.name:
            _allocate(path, SMALL_FILE_BYTES)


def _allocate(path: Path, end: int) -> None:
    opened = os.open(path, os.O_WRONLY)
    try:
        call("fallocate", opened, KEEP_SIZE, ctypes.c_int64(0), ctypes.c_int64(end))
    finally:
        os.close(opened)
