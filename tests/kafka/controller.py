"""Kafka nodes: a KRaft quorum of one that is broker and controller, with all that Kafka serves; controllers that join.

Owns its properties, the formatting of its folder by StorageTool, and its process, which is one of the test's
`Children`. Invariant: its ports and folder are the test's alone, its cluster id is its own. It refuses to know what is
asked of it.

The quorum is dynamic (kraft.version 1), so that the voter has a directory id and endpoints, unless it is to be static.
One that joins is a controller only, and observes until somebody makes it a voter. The log directory is
``<home>/data/__cluster_metadata-0``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from pykraft.local.child import Child, Children
from pykraft.local.kafka.java import Kafka, Main
from pykraft.local.ports import HOST, free_ports
from pykraft.local.voters import write_properties
from pykraft.types import Uuid, uuid_text

NODE_ID = 1


class JavaController:
    """Made by formatting its folder; `start` starts it."""

    def __init__(
        self,
        kafka: Kafka,
        children: Children,
        home: Path,
        *,
        node_id: int = NODE_ID,
        joins: JavaController | None = None,
        is_static: bool = False,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        home.mkdir(parents=True)
        self.node_id = node_id
        self.controller_port, self.broker_port = free_ports(2)
        self.cluster_id: str = uuid_text(Uuid(b"\1" + os.urandom(15))) if joins is None else joins.cluster_id
        self.partition = home / "data" / "__cluster_metadata-0"
        self._home = home
        self._children = children
        listeners = f"CONTROLLER://{HOST}:{self.controller_port}"
        if joins is None:
            listeners = f"PLAINTEXT://{HOST}:{self.broker_port},{listeners}"
        values = {
            "process.roles": "broker,controller" if joins is None else "controller",
            "node.id": str(node_id),
            "listeners": listeners,
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            "controller.quorum.bootstrap.servers": f"{HOST}:{(joins or self).controller_port}",
            "log.dirs": str(home / "data"),
            **(properties or {}),
        }
        how = ["--standalone" if joins is None else "--no-initial-controllers"]
        if is_static:
            del values["controller.quorum.bootstrap.servers"]
            values["controller.quorum.voters"] = f"{node_id}@{HOST}:{self.controller_port}"
            how = []
        self.config = write_properties(home / "server.properties", values)
        done = kafka.run(Main.STORAGE, "format", *how, "--cluster-id", self.cluster_id, "--config", str(self.config))
        assert done.status == 0, done
        self._command = kafka.command(Main.SERVER, [str(self.config)])

    def start(self) -> Child:
        """Start it; it serves when its controller answers."""
        return self._children.start(f"Java controller {self.node_id}", self._command, self._home / "node.log")
