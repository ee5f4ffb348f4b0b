"""TCP ports for nodes that are told their ports before they start.

Owns the choice, and for each chosen port a lock file that stays locked until our process ends. Invariant: two runs
on one machine never hold the same port, not even while the node that listens on it is down; without that, a killed
node's port could go to a stranger. Kafka's TestRaftServer has one fixed cluster id, so that a stranger's quorum would
take it in without a word.

Ports come from below the range that the system hands out by itself (32768 on Linux): a port from there may be
somebody's outgoing connection the moment a node wants it.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from pathlib import Path

from pykraft.errors import LocalQuorumError

HOST = "127.0.0.1"
PORT_MIN = 15_000
PORT_END = 31_000
_TRIES_MAX = 1_000

_held: dict[int, int] = {}
"""Lock file descriptor by port; closed, and so unlocked, by the end of the process."""


def free_ports(count: int) -> list[int]:
    """Ports on the loopback interface that nobody listens on, and that no other test run will be given.

    Errors: LocalQuorumError when a thousand tries did not find enough.
    """
    folder = Path(tempfile.gettempdir()) / f"pykraft-ports-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(PORT_MIN, PORT_END), _TRIES_MAX):
        if port not in _held and _hold(folder, port):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise LocalQuorumError(f"{_TRIES_MAX} ports were tried, {len(ports)} of the {count} needed were free")


def _hold(folder: Path, port: int) -> bool:
    lock = os.open(folder / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((HOST, port))
    except OSError:
        os.close(lock)
        return False
    _held[port] = lock
    return True
