"""A dynamic quorum of `pykraft server` nodes, formatted by ``pykraft storage``, and what its leader says of it.

Node 1 is formatted as the only voter, the others join as observers; tests add voters. Invariant: cluster id and ports
are the test's own. Both tools get the same properties files, written as an operator would write them.
"""

import os
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from lab.nodes.cluster import JournalKeeper, PykraftNode
from pykraft.cli.main import pykraft
from pykraft.local.child import Children
from pykraft.local.voters import HOST, free_ports
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.types import ReplicaKey, Uuid, uuid_text

THROUGHPUT = 50
"""Records a second, whoever leads."""


class DynamicQuorum:
    """Nodes 1 to ``size``, each formatted; nothing runs yet."""

    def __init__(self, children: Children, folder: Path, *, size: int, throughput: int = THROUGHPUT) -> None:
        self.cluster_id = uuid_text(Uuid(b"\1" + os.urandom(15)))
        self.journal = JournalKeeper(folder / "journal.jsonl")
        self.ports = dict(enumerate(free_ports(size), start=1))
        self.nodes = {
            node_id: PykraftNode(
                children,
                self.journal,
                folder / f"n{node_id}",
                node_id=node_id,
                ports=self.ports,
                throughput=throughput,
                properties=dynamic_properties(self.ports),
            )
            for node_id in self.ports
        }
        for node_id in self.nodes:
            self._format(node_id, "--standalone" if node_id == 1 else "--no-initial-controllers")

    def properties(self, node_id: int) -> Path:
        """The properties file of a node."""
        return self.nodes[node_id].partition.parents[1] / "server.properties"

    def key(self, node_id: int) -> ReplicaKey:
        """A node's id with that of its directory."""
        path = self.nodes[node_id].partition.parent / FILE_NAME
        meta = parse_meta(path, path.read_bytes())
        return ReplicaKey(meta.node_id, meta.directory_id)

    def directory_id(self, node_id: int) -> str:
        """The directory id of a node, as text."""
        directory_id = self.key(node_id).directory_id
        assert directory_id is not None
        return uuid_text(directory_id)

    def bootstrap(self, *node_ids: int) -> tuple[str, str]:
        """The option that names these nodes, or all."""
        return "--bootstrap-controller", ",".join(f"{HOST}:{self.ports[each]}" for each in node_ids or self.ports)

    def _format(self, node_id: int, how: str) -> None:
        words = ["storage", "format", "-c", str(self.properties(node_id)), "-t", self.cluster_id, how]
        done = CliRunner().invoke(pykraft, words)
        assert done.exit_code == 0, done.exception


def dynamic_properties(ports: Mapping[int, int]) -> dict[str, str]:
    """What a node of a dynamic quorum has in its properties in the place of static voters."""
    return {
        "process.roles": "controller",
        "controller.quorum.voters": "",
        "controller.quorum.bootstrap.servers": ",".join(f"{HOST}:{port}" for port in ports.values()),
    }
