"""The properties of one voter of a static quorum on the loopback interface; the same for a Java node and ours.

Owns names that both servers know. It refuses to know either of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pykraft.local.ports import HOST

PARTITION = "__raft_performance_test-0"
LISTENER = "PLAINTEXT"


def voter_properties(
    data: Path, *, node_id: int, ports: Mapping[int, int], extra: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Properties of node ``node_id``; ``ports`` are those of all voters by id, ``extra`` comes on top."""
    return {
        "node.id": str(node_id),
        "listeners": f"{LISTENER}://{HOST}:{ports[node_id]}",
        "controller.listener.names": LISTENER,
        "controller.quorum.voters": ",".join(f"{voter}@{HOST}:{port}" for voter, port in ports.items()),
        "log.dirs": str(data),
        **(extra or {}),
    }


def write_properties(path: Path, properties: Mapping[str, str]) -> Path:
    """Write a properties file; returns its path."""
    path.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    return path
