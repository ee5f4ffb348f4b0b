"""Runs a node with a key-value store and its HTTP API, or several in processes of their own, to try them.

The node leaves its quorum gracefully, as `pykraft server` does. Invariants: the API ends before the node does, so every
watch has a last line that sends its client elsewhere. However a trial ends, no process and no file of it is left.

Source: ours (ADR 085).
"""

from __future__ import annotations

import asyncio
import http.client
import ipaddress
import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, Final

from pykraft.client.life import until_signal
from pykraft.config import NodeConfig
from pykraft.errors import LocalQuorumError
from pykraft.kv.api import KeyValueApi
from pykraft.local.child import Child, Children, temporary_folder, wait_until
from pykraft.local.voters import QUICK, SOURCES, free_ports, voter_properties, write_properties
from pykraft.machine import Replicated
from pykraft.process.extras import imported_for
from pykraft.recipes import KeyValues
from pykraft.security.contexts import Side, TlsContext
from pykraft.security.settings import KEY_VALUE_NAME
from pykraft.server.binding import accepted_max, listening_sockets, not_bound, port_of
from pykraft.server.run import notify_ready
from pykraft.types import Endpoint, Uuid, uuid_text

ASK_TIMEOUT_S: Final = 2.0
LOOK_INTERVAL_S: Final = 0.1


def try_quorum(
    nodes: int,
    first: Endpoint,
    *,
    show: Callable[[Sequence[tuple[Endpoint, Child]]], None],
    report: Callable[[str], None],
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
        _wait(running, report)


def http_addresses(first: Endpoint, count: int) -> list[Endpoint]:
    """The addresses of this many nodes: the first one's and the next ports, or any free ones."""
    ports = range(first.port, first.port + count) if first.port else free_ports(count)
    return [Endpoint(first.host, port) for port in ports]


def serve_command(config: Path, at: Endpoint, cluster_id: str) -> list[str]:
    options = ["--config", str(config), "--cluster-id", cluster_id, "--http", str(at)]
    return [sys.executable, "-m", "pykraft", "kv", "serve", *options]


def _leads(running: Sequence[tuple[Endpoint, Child]]) -> bool:
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


def _wait(running: Sequence[tuple[Endpoint, Child]], report: Callable[[str], None]) -> None:
    living = list(running)
    while living:
        for one in [one for one in living if one[1].status is not None]:
            living.remove(one)
            report(f"{one[1].name} ended with {one[1].status}; {len(living)} of {len(running)} are left")
        Event().wait(LOOK_INTERVAL_S)
    raise LocalQuorumError("all nodes have ended")


if TYPE_CHECKING:  # it imports uvicorn, an extra
    from pykraft.kv.http_server import HttpServer

OPTION: Final = "--http"

logger = logging.getLogger("pykraft")


def require_package() -> None:
    """Check that the HTTP server is installed. Errors: UsageError when it is not."""
    with imported_for("pykraft kv serve"):
        import pykraft.kv.http_server  # noqa: F401 - only whether it is there


async def serve(
    config: NodeConfig, at: Endpoint, *, hold_at: Collection[int] = (), credentials: Path | None = None
) -> None:
    """Run the node and its API until a signal, over TLS if the listener `KEY_VALUE_NAME` is.

    ``credentials`` is a file of users and tokens (`AllowedUsers`). Errors: ConfigError for an address; those of a node.
    """
    require_package()
    from pykraft.kv.http_server import AllowedUsers, HttpServer

    security = config.security_of(KEY_VALUE_NAME)
    tls = TlsContext(security, Side.SERVER) if security.uses_tls else None
    known = None if credentials is None else AllowedUsers(credentials)
    accepted_max()  # raises the limit of descriptors, as `pykraft server` does
    try:
        sockets = listening_sockets(at)
    except OSError as error:
        raise not_bound(OPTION, str(at), error) from error
    try:
        replicated = Replicated(config, KeyValues(), hold_at=hold_at)
        for made in filter(None, (tls, known)):
            replicated.node.add_files(made)
        async with until_signal(), replicated as node:
            api = KeyValueApi(node, allow=None if known is None else known.allow)
            http = HttpServer(api, sockets, tls)
            if known is None and (tls is None or security.text("ssl.client.auth").lower() != "required"):
                _warn_of_strangers(at)
            told = f"{'http' if tls is None else 'https'}://{Endpoint(at.host, port_of(sockets))}"
            _print_ready(node, config.cluster_id, told)
            await _run(http, api)
    finally:
        for each in sockets:
            each.close()


async def _run(http: HttpServer, api: KeyValueApi) -> None:
    serving = asyncio.ensure_future(http.run())
    try:
        await asyncio.shield(serving)
    finally:
        api.close()
        http.stop()
        await serving


def _warn_of_strangers(at: Endpoint) -> None:
    if not _is_loopback(at.host):
        logger.warning("%s is not a loopback address: who reaches it can read and change the whole store", at)


def _print_ready(node: Replicated[KeyValues], cluster_id: str, at: str) -> None:
    known = ", ".join(f"{name}://{endpoint}" for name, endpoint in node.node.listeners)
    logger.info("node %s of cluster %s serves %s", node.node.node_id, cluster_id, known)
    logger.info("key-value store at %s", at)
    notify_ready()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
