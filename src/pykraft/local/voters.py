"""Ports and properties files for nodes of a quorum on the loopback interface, Java nodes or ours.

For each chosen port a lock file stays locked until our process ends. Invariant: two runs on one machine never hold the
same port, not even while the node that listens on it is down. Otherwise another run could take a killed node's port;
and because every TestRaftServer has the same cluster id, the other quorum would accept the node silently.

Ports lie below the range from which the system assigns ports (32768 on Linux): a port in that range may become
somebody's outgoing connection at any moment. Files have only properties that both servers know.
"""

import fcntl
import os
import random
import socket
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pykraft
from pykraft.errors import LocalQuorumError
from pykraft.local.child import temporary_root
from pykraft.types import Endpoint

HOST = "127.0.0.1"
PORT_MIN = 15_000
PORT_END = 31_000
_TRIES_MAX = 1_000

_held: dict[int, int] = {}
"""Lock file descriptor by port; the end of the process closes and so unlocks it."""


def free_ports(count: int) -> list[int]:
    """Ports on the loopback interface that nothing listens on, and that no other run will get.

    Errors: LocalQuorumError when a thousand tries did not find enough.
    """
    folder = Path(temporary_root()) / f"pykraft-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(PORT_MIN, PORT_END), _TRIES_MAX):
        if port not in _held and _hold(folder, port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise LocalQuorumError(f"{_TRIES_MAX} ports were tried, but only {len(ports)} of {count} were free")


def _hold(folder: Path, port: int) -> bool:
    lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            # As servers do: closed connections of an earlier node (TIME_WAIT) do not make the port busy.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    except OSError:
        os.close(lock)
        return False
    _held[port] = lock
    return True


PARTITION = "__raft_performance_test-0"
LISTENER = "PLAINTEXT"
SOURCES = Path(pykraft.__file__).resolve().parents[1]
QUICK = {"controller.quorum.election.timeout.ms": "500", "controller.quorum.fetch.timeout.ms": "1000"}
"""Timeouts for tests that kill leaders: half of the defaults."""


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


def server_command(config: Path, *options: str) -> list[str]:
    """The command that runs a node with this properties file."""
    return [sys.executable, "-m", "pykraft", "server", "--config", str(config), *options]
