"""Runs a node with a key-value store and its HTTP API in this process, until a signal ends it.

The node leaves its quorum gracefully, as `pykraft server` does. Invariant: the API ends before the node does, so every
watch has a last line that sends its client elsewhere.

Source: ours (ADR 085).
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Collection
from typing import TYPE_CHECKING, Final

from pykraft.client.until_signal import until_signal
from pykraft.config import NodeConfig
from pykraft.kv.api import KeyValueApi
from pykraft.machine import Replicated
from pykraft.process.extras import imported_for
from pykraft.recipes import KeyValues
from pykraft.server.binding import accepted_max, listening_sockets, not_bound, port_of
from pykraft.server.run import notify_ready
from pykraft.types import Endpoint

if TYPE_CHECKING:  # it imports uvicorn, an extra
    from pykraft.kv.http_server import HttpServer

OPTION: Final = "--http"

logger = logging.getLogger("pykraft")


def require_package() -> None:
    """Check that the HTTP server is installed. Errors: UsageError when it is not."""
    with imported_for("pykraft kv serve"):
        import pykraft.kv.http_server  # noqa: F401 - only whether it is there


async def serve(config: NodeConfig, at: Endpoint, *, skip_offsets: Collection[int] = ()) -> None:
    """Run the node and its API until a signal. Errors: ConfigError for an address; those of a node."""
    require_package()
    from pykraft.kv.http_server import HttpServer

    accepted_max()  # raises the limit of descriptors, as `pykraft server` does
    try:
        sockets = listening_sockets(at)
    except OSError as error:
        raise not_bound(OPTION, str(at), error) from error
    try:
        async with until_signal(), Replicated(config, KeyValues(), skip_offsets=skip_offsets) as node:
            api = KeyValueApi(node)
            http = HttpServer(api, sockets)
            _tell(node, config.cluster_id, at, port_of(sockets))
            await _run(http, api)
    finally:
        for each in sockets:
            each.close()


async def _run(http: HttpServer, api: KeyValueApi) -> None:
    """Serve until this is cancelled, by a signal or by the end of the node."""
    serving = asyncio.ensure_future(http.run())
    try:
        await asyncio.shield(serving)
    finally:
        api.close()
        http.stop()
        await serving


def _tell(node: Replicated[KeyValues], cluster_id: str, at: Endpoint, port: int) -> None:
    if not _is_loopback(at.host):
        logger.warning("%s is not a loopback address: who reaches it can read and change the whole store", at)
    known = ", ".join(f"{name}://{endpoint}" for name, endpoint in node.node.listeners)
    logger.info("node %s of cluster %s serves %s", node.node.node_id, cluster_id, known)
    logger.info("key-value store at http://%s", Endpoint(at.host, port))
    notify_ready()


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
