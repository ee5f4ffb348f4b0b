"""A quorum of nodes with key-value stores, to try them: a process each, in a temporary folder, gone afterwards.

Invariant: however this ends, no process and no file of it is left (`pykraft.local.child`, `pykraft.local.keeper`).
"""

from __future__ import annotations

import http.client
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Event
from typing import Any, Final

from pykraft.errors import LocalQuorumError
from pykraft.local.child import Child, Children
from pykraft.local.cluster import QUICK, SOURCES
from pykraft.local.keeper import temporary_folder
from pykraft.local.ports import free_ports
from pykraft.local.voters import voter_properties, write_properties
from pykraft.local.waiting import wait_until
from pykraft.types import Endpoint, Uuid, uuid_text

ASK_TIMEOUT_S: Final = 2.0
LOOK_INTERVAL_S: Final = 0.1


def try_quorum(
    nodes: int,
    first: Endpoint,
    *,
    show: Callable[[Sequence[tuple[Endpoint, Child]]], None],
    tell: Callable[[str], None],
) -> None:
    """Run this many nodes until all have ended, or a signal ends this; ``first`` is the HTTP address of node 1.

    ``show`` gets the nodes once one leads; ``tell`` gets a line about each that ended.

    Errors: LocalQuorumError when a node ends before that, or at last all have ended.
    """
    addresses = http_addresses(first, nodes)
    ports = dict(enumerate(free_ports(nodes), start=1))
    cluster_id = uuid_text(Uuid(os.urandom(16)))
    with temporary_folder("pykraft-kv-") as folder, Children() as children:
        running: list[tuple[Endpoint, Child]] = []
        for node_id, address in enumerate(addresses, start=1):
            home = folder / f"n{node_id}"
            home.mkdir()
            config = write_properties(
                home / "server.properties", voter_properties(home / "data", node_id=node_id, ports=ports, extra=QUICK)
            )
            child = children.start(
                f"node {node_id}",
                serve_command(config, address, cluster_id),
                home / "node.log",
                environment={"PYTHONPATH": str(SOURCES)},
                has_group=True,  # a Ctrl-C is for this process, which ends them
            )
            running.append((address, child))
        wait_until(lambda: _leads(running), "a leader")
        show(running)
        _wait(running, tell)


def http_addresses(first: Endpoint, count: int) -> list[Endpoint]:
    """The addresses of this many nodes: the first one's and the next ports, or any free ones."""
    ports = range(first.port, first.port + count) if first.port else free_ports(count)
    return [Endpoint(first.host, port) for port in ports]


def serve_command(config: Path, at: Endpoint, cluster_id: str) -> list[str]:
    """The command that runs one node."""
    options = ["--config", str(config), "--cluster-id", cluster_id, "--http", str(at)]
    return [sys.executable, "-m", "pykraft", "kv", "serve", *options]


def _leads(running: Sequence[tuple[Endpoint, Child]]) -> bool:
    """Whether all nodes know a leader. Errors: LocalQuorumError when one has ended."""
    for address, child in running:
        if child.status is not None:
            said = child.log().strip().splitlines()
            raise LocalQuorumError(f"{child.name} ended with {child.status}: {said[-1] if said else 'it said nothing'}")
        if status_of(address).get("leader_id") is None:
            return False
    return True


def status_of(address: Endpoint) -> dict[str, Any]:
    """What a node says of itself; nothing if it does not answer."""
    connection = http.client.HTTPConnection(address.host, address.port, timeout=ASK_TIMEOUT_S)
    try:
        connection.request("GET", "/v1/status")
        found = json.loads(connection.getresponse().read(1 << 16))
    except (OSError, http.client.HTTPException, ValueError):
        return {}
    finally:
        connection.close()
    return found if isinstance(found, dict) else {}


def _wait(running: Sequence[tuple[Endpoint, Child]], tell: Callable[[str], None]) -> None:
    """Wait for the end of all. Errors: LocalQuorumError."""
    living = list(running)
    while living:
        for one in [one for one in living if one[1].status is not None]:
            living.remove(one)
            tell(f"{one[1].name} ended with {one[1].status}; {len(living)} of {len(running)} are left")
        Event().wait(LOOK_INTERVAL_S)
    raise LocalQuorumError("all nodes have ended")
