"""Chooses TCP ports for nodes that must know their ports before they start.

For each chosen port it keeps a lock file locked until our process ends. Invariant: two runs on one machine never hold
the same port, not even while the node that listens on it is down. Otherwise another run could take a killed node's
port; and because every TestRaftServer has the same cluster id, the other quorum would accept the node silently.

Ports lie below the range from which the system assigns ports (32768 on Linux): a port in that range may become
somebody's outgoing connection at any moment.
"""

from __future__ import annotations

import fcntl
import os
import random
import socket
from pathlib import Path

from pykraft.errors import LocalQuorumError
from pykraft.local.keeper import temporary_root

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
