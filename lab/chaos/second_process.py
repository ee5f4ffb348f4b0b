"""Starts a second process that claims what belongs to a running node: its id, or its directory.

Both are mistakes of operators: a copied properties file, and a lock file that somebody takes for a leftover. Invariant:
the second process harms nothing and is told of, or the run fails; it ends with the fault.

Source: ADR 130 (the id), ADR 135 (the directory).
"""

import subprocess
from collections.abc import Callable
from typing import Final

from lab.nodes.cluster import Cluster, PykraftNode
from pykraft.errors import LocalQuorumError
from pykraft.local.child import wait_until

STORAGE_FAILED: Final = 3
"""Exit status of a node that cannot write to its disk, or whose directory or lock is not its own any more."""
ALARM: Final = "TWO PROCESSES HAVE THE NODE ID {}: "
LOCK: Final = ".lock"
IN_USE: Final = "uses this directory"
REFUSAL_TIMEOUT_S: Final = 20.0


class Twin:
    """A process with the id of a static voter and an empty directory of its own, until `close`."""

    def __init__(self, cluster: Cluster, node: PykraftNode) -> None:
        self._cluster = cluster
        self._node_id = node.node_id
        self._begin_sizes = {node_id: replica.log_path.stat().st_size for node_id, replica in cluster.nodes.items()}
        self._process = cluster.second_process(node.node_id)
        self._process.start()

    def require_alarm(self, require_life: Callable[[], None]) -> None:
        """Wait until a node has logged that two processes have this id. Errors: LocalQuorumError."""

        def is_alarmed() -> bool:
            require_life()
            # The twin of a leader finds no leader but itself, so it fetches nothing and nobody hears of it.
            return self._is_reported() or self._cluster.journal.leader_id() == self._node_id

        wait_until(is_alarmed, f"an alarm about the twin of node {self._node_id}", alive=[self._process.process])

    def close(self) -> None:
        """End it at once. May be called again."""
        self._process.process.kill()

    def _is_reported(self) -> bool:
        alarm = ALARM.format(self._node_id).encode()
        for node_id, replica in self._cluster.nodes.items():
            with replica.log_path.open("rb") as log:
                log.seek(self._begin_sizes[node_id])
                if alarm in log.read():
                    return True
        return False


def take_lock_away(cluster: Cluster, node: PykraftNode) -> None:
    """Delete the lock file of a running node, and start a second server on its directory, which must refuse.

    The node is paused meanwhile: it would notice within two seconds, and its end would let the second one in.

    Errors: LocalQuorumError if the second one does not end with STORAGE_FAILED because the directory is in use.
    """
    data = node.partition.parent
    second = cluster.second_process(node.node_id, data=data.absolute())
    node.process.pause()
    try:
        (data / LOCK).unlink()
        second.start()
        status = _end(second)
    finally:
        node.process.resume()
    if status != STORAGE_FAILED or IN_USE not in second.log_path.read_text():
        raise LocalQuorumError(
            f"without {LOCK}, a second server on the directory of node {node.node_id} ended with {status}, not with "
            f"{STORAGE_FAILED} because another process {IN_USE}"
        )


def _end(second: PykraftNode) -> int | None:
    """The exit status of a server that refuses to start; None if it had to be killed."""
    try:
        return second.process.wait(timeout_s=REFUSAL_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        second.process.kill()
        return None


def require_stop(node: PykraftNode) -> None:
    """Wait until the node whose lock is gone has stopped. Errors: LocalQuorumError."""
    status = wait_until(lambda: node.process.status, f"node {node.node_id} to notice that its {LOCK} is gone")
    if status != STORAGE_FAILED:
        raise LocalQuorumError(f"node {node.node_id}, whose {LOCK} is gone, ended with {status}")
