"""Two Java controllers, a pykraft voter that never leads, and a Java broker that creates topics all the while.

Nodes 1 and 2 are Kafka's controllers, node 3 is ours, and node 4 is the broker. With kraft.version 0 all three are
static voters. With kraft.version 1 nodes 1 and 2 are the first voters, and our tool then adds node 3, which has caught
up as an observer. `Topics` creates one topic after the other through the broker and notes when each was there, so a
test can see how long the cluster stood still.

Invariant: ports, folders and cluster id are the test's own.
"""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

from click.testing import CliRunner
from kio.schema.errors import ErrorCode

from lab.kafka.java import Kafka, Main
from lab.nodes.logs import read_stream
from pykraft.cli.main import pykraft
from pykraft.errors import OutcomeUnknownError, RefusedError
from pykraft.local.child import Child, Children, wait_until
from pykraft.local.voters import HOST, SOURCES, free_ports, server_command, write_properties
from pykraft.types import Uuid, uuid_text
from tests.kafka.broker_calls import broker_calls, listens, requests_of

JAVA: Final = (1, 2)
OURS: Final = 3
BROKER: Final = 4
PACE_S: Final = 0.1
"""Pause between two topics."""
ADD_AGAIN_S: Final = 0.5
"""Pause between two attempts to add node 3."""
topics = requests_of("create_topics.v7")


class Cluster:
    """All four nodes; `start` formats and starts them."""

    def __init__(
        self, kafka: Kafka, children: Children, home: Path, *, third_is_java: bool = False, kraft_version: int = 0
    ) -> None:
        """``third_is_java`` for a comparison: node 3 is a controller of Kafka, too."""
        self._kafka, self._children, self._home = kafka, children, home
        self.has_pykraft = not third_is_java
        self._is_dynamic = kraft_version == 1
        *ports, self.broker_port = free_ports(4)
        self.ports = dict(zip((*JAVA, OURS), ports, strict=True))
        self.cluster_id = _drawn_uuid()
        servers = [f"{node_id}@{HOST}:{self.ports[node_id]}" for node_id in self.ports]
        self._voters = (
            {"controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{port}" for port in ports)}
            if self._is_dynamic
            else {"controller.quorum.voters": ",".join(servers)}
        )
        self._first_voters = ",".join(f"{server}:{_drawn_uuid()}" for server in servers[: len(JAVA)])
        self.processes: dict[int, Child] = {}
        self._configs = {node_id: self._configured(node_id) for node_id in (*JAVA, OURS, BROKER)}

    def _is_ours(self, node_id: int) -> bool:
        return node_id == OURS and self.has_pykraft

    def _configured(self, node_id: int) -> Path:
        home = self._home / f"n{node_id}"
        home.mkdir(parents=True)
        is_broker = node_id == BROKER
        values = {
            "process.roles": "broker" if is_broker else "controller",
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{HOST}:{self.broker_port}"
            if is_broker
            else f"CONTROLLER://{HOST}:{self.ports[node_id]}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "log.dirs": str(home / "data"),
            **self._voters,
        }
        if self._is_ours(node_id):
            values |= {"pykraft.topic": "__cluster_metadata", "pykraft.voter.never.leads": "true"}
        return write_properties(home / "server.properties", values)

    def partition(self, node_id: int) -> Path:
        """The directory of a node's copy of the metadata log."""
        return self._home / f"n{node_id}" / "data" / "__cluster_metadata-0"

    def log_path(self, node_id: int) -> Path:
        """What a node printed."""
        return self._home / f"n{node_id}" / "node.log"

    def start(self) -> None:
        """Format and start all nodes, wait until the broker serves clients, and make node 3 a voter."""
        for node_id, config in self._configs.items():
            words = ["format", "--cluster-id", self.cluster_id, "--config", str(config), *self._membership(node_id)]
            if self._is_ours(node_id):
                done = CliRunner().invoke(pykraft, ["storage", *words])
                assert done.exit_code == 0, (done.output, done.exception)
            else:
                result = self._kafka.run(Main.STORAGE, *words)
                assert result.status == 0, result
            self.run(node_id)
        alive = list(self.processes.values())
        wait_until(lambda: listens(self.broker_port), "the broker to listen", alive=alive)
        if self._is_dynamic:
            wait_until(self._add_third, "node 3 to be a voter", alive=alive, interval_s=ADD_AGAIN_S)

    def _membership(self, node_id: int) -> list[str]:
        if not self._is_dynamic or node_id == BROKER:
            return []
        return ["--initial-controllers", self._first_voters] if node_id in JAVA else ["--no-initial-controllers"]

    def _add_third(self) -> bool:
        """Ask the leader to add node 3; False as long as it has not caught up, or another change is under way."""
        known = ("--bootstrap-controller", f"{HOST}:{self.ports[JAVA[0]]}")
        config = ("--command-config", str(self._configs[OURS]))
        done = CliRunner().invoke(pykraft, ["quorum", *known, *config, "add-controller"])
        refused = done.exception if isinstance(done.exception, RefusedError | OutcomeUnknownError) else None
        # An answer may be lost after the change was accepted.
        if refused is not None and "DUPLICATE_VOTER" in str(refused):
            return True
        assert done.exit_code == 0 or refused is not None, (done.output, done.exception)
        return done.exit_code == 0

    def run(self, node_id: int) -> None:
        """Start one node, the first time or again."""
        config = self._configs[node_id]
        if self._is_ours(node_id):
            command, environment = server_command(config), {"PYTHONPATH": str(SOURCES)}
        else:
            command, environment = self._kafka.command(Main.SERVER, [str(config)], log_level="INFO"), {}
        name = f"node {node_id}"
        self.processes[node_id] = self._children.start(name, command, self.log_path(node_id), environment=environment)

    def kill(self, node_id: int) -> None:
        """End one node as ``kill -9`` does."""
        self.processes[node_id].kill()

    def end_offset(self, node_id: int) -> int:
        """Where a node's copy of the metadata log ends."""
        return read_stream(self.partition(node_id)).end_offset


class Topics:
    """Creates topics one after the other in a thread of its own."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._is_over = threading.Event()
        self.created: list[float] = []
        """When the broker said that a topic was created (monotonic seconds), in order."""
        self.refused: list[str] = []
        """Errors with which a topic was not created; it was tried again."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Create topics for as long as the context lasts."""
        thread = threading.Thread(target=self._run, name="topics")
        thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            thread.join()

    def _run(self) -> None:
        number = 0
        while not self._is_over.wait(PACE_S):
            number += 1
            while not self._is_over.is_set() and not self._create(f"topic-{number}"):
                pass

    def _create(self, name: str) -> bool:
        """One attempt; one whose outcome is unknown may have created the topic."""
        wanted = topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1, assignments=(), configs=())
        try:
            with broker_calls(self._port) as calls:
                answer = calls.ask(topics.CreateTopicsRequest(topics=(wanted,), timeout=timedelta(seconds=10)))
        except OSError as error:
            self.refused.append(str(error))
            return False
        code = answer.topics[0].error_code
        if code not in (ErrorCode.none, ErrorCode.topic_already_exists):
            self.refused.append(code.name)
            return False
        self.created.append(time.monotonic())
        return True


def _drawn_uuid() -> str:
    """For a cluster or a directory; its text never begins with a dash."""
    return uuid_text(Uuid(b"\1" + os.urandom(15)))
