"""Runs one node of Kafka's TestRaftServer in a local quorum, with other Java nodes or with ours.

It creates the node's properties, command line and folder. Invariant: its ports and folder belong to its caller alone.
Every TestRaftServer has the same cluster id, so two quorums that shared a port would merge. The process is one of the
caller's `Children`, which stop it.

The node appends ``--throughput`` records per second while it leads, prints a line of statistics now and then, and exits
with 143 after SIGTERM. Its log directory is ``<home>/data/__raft_performance_test-0``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.kafka.java import SMALL_JVM, Kafka, Main
from pykraft.local.child import Child, Children
from pykraft.local.voters import PARTITION, voter_properties, write_properties
from pykraft.types import Uuid, uuid_text

STOPPED_BY_SIGTERM = 143


class JavaNode:
    """A TestRaftServer that can be started, stopped, killed, paused and restarted in the same folder."""

    def __init__(  # noqa: PLR0913 - all by name, and each is the command line of a node
        self,
        kafka: Kafka,
        children: Children,
        home: Path,
        *,
        node_id: int,
        ports: Mapping[int, int],
        throughput: int = 200,
        record_size_bytes: int = 64,
        properties: Mapping[str, str] | None = None,
        log_level: str = "INFO",
        jvm: Sequence[str] = SMALL_JVM,
    ) -> None:
        """``ports`` are those of all voters by node id, also this node; ``throughput`` is in records per second."""
        self.node_id = node_id
        self.partition = home / "data" / PARTITION
        self.log_path = home / "node.log"
        self._children = children
        self._child: Child | None = None
        home.mkdir(parents=True)
        values = voter_properties(home / "data", node_id=node_id, ports=ports, extra=properties)
        arguments = {
            "config": write_properties(home / "server.properties", values),
            "replica-directory-id": uuid_text(Uuid(b"kafka" + node_id.to_bytes(11))),
            "throughput": throughput,
            "record-size": record_size_bytes,
        }
        flat = [part for key, value in arguments.items() for part in (f"--{key}", str(value))]
        self._command = kafka.command(Main.RAFT_NODE, flat, log_level=log_level, jvm=jvm)

    @property
    def process(self) -> Child:
        """The process of the last start."""
        assert self._child is not None, f"Java node {self.node_id} was not started"
        return self._child

    def start(self) -> None:
        """Start or restart it; its files show when it is up."""
        assert self._child is None or self._child.status is not None, f"Java node {self.node_id} is already running"
        self._child = self._children.start(f"Java node {self.node_id}", self._command, self.log_path)
