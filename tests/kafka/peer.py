"""One node of Kafka's TestRaftServer as a member of a test's quorum, beside other Java nodes and ours.

Owns the node's properties, command line and folder. Invariant: its ports and folder are the test's alone;
TestRaftServer has one cluster id for everybody, so a port that is shared is a quorum that is shared. Its process is one
of the test's `Children`, which end it. It refuses to know the protocol: what a node does is read from its files.

The node appends ``--throughput`` records a second while it leads, prints a line of statistics now and then, and exits
with 143 after SIGTERM. Its log directory is ``<home>/data/__raft_performance_test-0``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pykraft.types import Uuid, uuid_text
from tests.kafka.java import Kafka, Main
from tests.processes.child import Child, Children
from tests.processes.ports import HOST

PARTITION = "__raft_performance_test-0"
LISTENER = "PLAINTEXT"
STOPPED_BY_SIGTERM = 143


def voters_property(ports: Mapping[int, int]) -> str:
    """``controller.quorum.voters`` for nodes with these ports on the loopback interface."""
    return ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in ports.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownLeader:
    """Who leads, as one node knows it."""

    id: int
    epoch: int


class JavaNode:
    """A TestRaftServer that can be started, stopped, killed, paused and started again in the same folder."""

    def __init__(
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
    ) -> None:
        """``ports`` are those of all voters by node id, this node's included; ``throughput`` in records a second."""
        self.node_id = node_id
        self.partition = home / "data" / PARTITION
        self.log_path = home / "node.log"
        self._children = children
        self._child: Child | None = None
        config = home / "server.properties"
        arguments = {
            "config": config,
            "replica-directory-id": uuid_text(Uuid(b"kafka" + node_id.to_bytes(11))),
            "throughput": throughput,
            "record-size": record_size_bytes,
        }
        flat = [part for key, value in arguments.items() for part in (f"--{key}", str(value))]
        self._command = kafka.command(Main.RAFT_NODE, flat, log_level="INFO")
        home.mkdir(parents=True)
        all_properties = {
            "node.id": str(node_id),
            "listeners": f"{LISTENER}://{HOST}:{ports[node_id]}",
            "controller.listener.names": LISTENER,
            "controller.quorum.voters": voters_property(ports),
            "log.dirs": str(home / "data"),
            **(properties or {}),
        }
        config.write_text("".join(f"{key}={value}\n" for key, value in all_properties.items()))

    @property
    def process(self) -> Child:
        """The process as it was started last."""
        assert self._child is not None, f"Java node {self.node_id} was not started"
        return self._child

    def start(self) -> None:
        """Start it, the first time or again; it is up when its files say so."""
        assert self._child is None or self._child.status is not None, f"Java node {self.node_id} already runs"
        self._child = self._children.start(f"Java node {self.node_id}", self._command, self.log_path)

    def leader(self, *, after_epoch: int = -1) -> KnownLeader | None:
        """The leader that the node last wrote to ``quorum-state``; None without one, or of an epoch up to this."""
        try:
            state = json.loads((self.partition / "quorum-state").read_text())
        except FileNotFoundError:
            return None
        known = KnownLeader(id=state["leaderId"], epoch=state["leaderEpoch"])
        return known if known.id >= 0 and known.epoch > after_epoch else None
