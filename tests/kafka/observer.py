"""A `pykraft server` that observes Kafka's controllers, formatted as an operator would do it.

This module creates its folder and properties and runs its process. Tests check what it fetched.
"""

from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from pykraft.cli.main import pykraft
from pykraft.local.child import Child, Children
from pykraft.local.voters import HOST, SOURCES, free_ports, server_command, write_properties
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.protocol.messages import ApiKey
from pykraft.types import uuid_text
from tests.kafka.controller import JavaController
from tests.processes.wire import Wire

NODE_ID = 9


class MetadataObserver:
    """Made without a disk; the first `start` formats one. One that ``never_leads`` may be added as a voter."""

    def __init__(
        self,
        children: Children,
        home: Path,
        controller: JavaController,
        *,
        never_leads: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        home.mkdir()
        [self.port] = free_ports(1)
        self.partition = home / "data" / "__cluster_metadata-0"
        self.log_path = home / "node.log"
        self._children = children
        self._cluster_id = controller.cluster_id
        values = {
            "node.id": str(NODE_ID),
            "process.roles": "controller",
            "listeners": f"CONTROLLER://{HOST}:{self.port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT",
            "controller.quorum.bootstrap.servers": f"{HOST}:{controller.controller_port}",
            "log.dirs": str(home / "data"),
            "pykraft.topic": "__cluster_metadata",
            "pykraft.voter.never.leads": str(never_leads).lower(),
            **(properties or {}),
        }
        self.config = write_properties(home / "server.properties", values)

    @property
    def directory_id(self) -> str:
        """The directory id that it was formatted with."""
        path = self.partition.parent / FILE_NAME
        directory_id = parse_meta(path, path.read_bytes()).directory_id
        assert directory_id is not None
        return uuid_text(directory_id)

    def voters(self) -> list[int]:
        """Ids of the voters as this node itself knows them; none while it knows no leader, or does not serve yet."""
        try:
            with Wire(self.port) as wire:
                told = wire.ask(ApiKey.DESCRIBE_CLUSTER, 2, {"endpoint_type": 2})
        except ConnectionRefusedError:
            return []
        return [] if told["error_code"] else sorted(each["broker_id"] for each in told["brokers"])

    def start(self) -> Child:
        """Start it, the first time or again."""
        if not self.partition.parent.exists():
            words = ["storage", "format", "-c", str(self.config), "-t", self._cluster_id, "--no-initial-controllers"]
            done = CliRunner().invoke(pykraft, words)
            assert done.exit_code == 0, done.exception
        command = server_command(self.config)
        return self._children.start("observer", command, self.log_path, environment={"PYTHONPATH": str(SOURCES)})
