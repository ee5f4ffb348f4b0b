"""Writes the properties file of a node of a quorum on the loopback interface, for a Java node or ours.

It uses only properties that both servers know.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from pykraft.local.ports import HOST
from pykraft.types import Endpoint

PARTITION = "__raft_performance_test-0"
LISTENER = "PLAINTEXT"


def voter_properties(
    data: Path, *, node_id: int, ports: Mapping[int, int], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Properties of a static voter; ``ports`` are those of all voters by id, ``extra`` is added."""
    voters = ",".join(f"{voter}@{HOST}:{port}" for voter, port in ports.items())
    return {**_own(data, node_id, ports[node_id]), "controller.quorum.voters": voters, **(extra or {})}


def joiner_properties(
    data: Path, *, node_id: int, port: int, bootstrap: Sequence[Endpoint], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Properties of a node of a dynamic quorum, which it finds at these addresses; ``extra`` is added."""
    found_at = ",".join(str(endpoint) for endpoint in bootstrap)
    return {**_own(data, node_id, port), "controller.quorum.bootstrap.servers": found_at, **(extra or {})}


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """Write a properties file; returns its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path


def _own(data: Path, node_id: int, port: int) -> dict[str, str]:
    return {
        "node.id": str(node_id),
        "listeners": f"{LISTENER}://{HOST}:{port}",
        "controller.listener.names": LISTENER,
        "log.dirs": str(data),
    }
