"""Kafka nodes: a KRaft quorum of one that is broker and controller, and further controllers that join it.

This module writes their properties, formats their folders with StorageTool, and starts their processes, which belong to
the test's `Children`. Invariant: ports, folder and cluster id are the test's own.

The quorum is dynamic (kraft.version 1), so the voter has a directory id and endpoints, unless a test asks for a static
one. A node that joins is only a controller, and observes until it is added as a voter. The log directory is
``<home>/data/__cluster_metadata-0``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from lab.kafka.java import Kafka, Main
from pykraft.local.child import Child, Children
from pykraft.local.voters import HOST, free_ports, write_properties
from pykraft.types import Uuid, uuid_text

NODE_ID = 1


class JavaController:
    """Made by formatting its folder; `start` starts it."""

    def __init__(  # noqa: PLR0913 - all but the first three by name
        self,
        kafka: Kafka,
        children: Children,
        home: Path,
        *,
        node_id: int = NODE_ID,
        joins: JavaController | None = None,
        is_static: bool = False,
        properties: Mapping[str, str] | None = None,
        listeners: Mapping[str, int] | None = None,
        format_options: Sequence[str] = (),
    ) -> None:
        """``listeners`` are further ones by name, with their ports."""
        home.mkdir(parents=True)
        self.node_id = node_id
        self.controller_port, self.broker_port = free_ports(2)
        self.cluster_id: str = uuid_text(Uuid(b"\1" + os.urandom(15))) if joins is None else joins.cluster_id
        self.partition = home / "data" / "__cluster_metadata-0"
        self._home = home
        self._children = children
        listeners_text = f"CONTROLLER://{HOST}:{self.controller_port}"
        if joins is None:
            listeners_text = f"PLAINTEXT://{HOST}:{self.broker_port},{listeners_text}"
        listeners_text = ",".join(
            [listeners_text, *(f"{name}://{HOST}:{port}" for name, port in (listeners or {}).items())]
        )
        values = {
            "process.roles": "broker,controller" if joins is None else "controller",
            "node.id": str(node_id),
            "listeners": listeners_text,
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
        options = (*how, *format_options, "--cluster-id", self.cluster_id, "--config", str(self.config))
        done = kafka.run(Main.STORAGE, "format", *options)
        assert done.status == 0, done
        self._command = kafka.command(Main.SERVER, [str(self.config)])

    def start(self) -> Child:
        """Start it; it serves when its controller answers."""
        return self._children.start(f"Java controller {self.node_id}", self._command, self._home / "node.log")
