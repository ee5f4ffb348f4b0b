"""`pykraft kv serve`: a node with a key-value store and its HTTP API; without a configuration three, to try it."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pykraft.cli.config_file import checked_config, override, read_properties, tell_of_neighbors
from pykraft.cli.identity import with_cluster_id
from pykraft.cli.kv.options import HTTP
from pykraft.cli.parsing.choice import OneOf
from pykraft.cli.parsing.listen_address import listen_address
from pykraft.cli.parsing.value import NumberType
from pykraft.cli.server import LEVELS
from pykraft.config import INT64_MAX, NodeConfig
from pykraft.config.properties_format import with_origins
from pykraft.errors import UsageError
from pykraft.types import PORT_MAX, Endpoint

if TYPE_CHECKING:  # imported when the nodes run, so that --help is quick
    from pykraft.local.child import Child

NODES: Final = 3
NODES_MAX: Final = 15

logger = logging.getLogger("pykraft")


@click.command(short_help="Run a node with the store and its HTTP API, or three to try it.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Properties file of this node, as for `pykraft server`.",
)
@click.option(
    "--http", default=HTTP, show_default=True, metavar="HOST:PORT", help="Where the HTTP API listens; port 0 is any."
)
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Property that overrides the file's.")
@click.option("--cluster-id", help="Cluster id; by default the one in meta.properties, or that of Kafka's test server.")
@click.option(
    "--log-level", type=OneOf(LEVELS), default="info", show_default=True, help="Log messages of this level and above."
)
@click.option(
    "--nodes",
    type=NumberType(int, 1, NODES_MAX),
    help="Without --config: this many nodes, on the next HTTP ports.  [default: 3]",
)
@click.option(
    "--skip-offset",
    "skip_offsets",
    type=NumberType(int, 0, INT64_MAX),
    multiple=True,
    help="With --config: a command in the log that no node can read, the same on all nodes.",
)
def serve(
    *,
    config_path: Path | None,
    http: str,
    overrides: tuple[str, ...],
    cluster_id: str | None,
    log_level: str,
    nodes: int | None,
    skip_offsets: tuple[int, ...],
) -> None:
    """Run a node of a quorum with --config. Without it, run three nodes in a temporary folder until Ctrl-C.

    There is no authentication: whoever reaches the HTTP address can read and change the store.
    """
    from pykraft.kv.service import require_package

    require_package()
    at = listen_address("--http", http)
    if config_path is None:
        if overrides or skip_offsets or cluster_id is not None:
            raise UsageError(
                "--override, --cluster-id and --skip-offset need --config: without it the nodes are configured for you"
            )
        _try(at, nodes or NODES)
        return
    if nodes is not None:
        raise UsageError("--nodes and --config: give --config for one node, or --nodes to try several")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logger.setLevel(log_level.upper())
    properties = read_properties(config_path)
    override(properties, overrides, "--override")
    config = with_cluster_id(checked_config(properties), cluster_id)
    tell_of_neighbors(config)
    with with_origins(properties):
        _serve(config, at, skip_offsets)


def _serve(config: NodeConfig, at: Endpoint, skip_offsets: tuple[int, ...]) -> None:
    from pykraft.kv.service import serve as run
    from pykraft.server.run import loop_factory

    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        runner.run(run(config, at, skip_offsets=skip_offsets))


def _try(first: Endpoint, nodes: int) -> None:
    from pykraft.kv.trial import try_quorum

    if first.port + nodes - 1 > PORT_MAX:
        raise UsageError(f"--http {first}: ports are needed up to {first.port + nodes - 1}")

    def show(running: Sequence[tuple[Endpoint, Child]]) -> None:
        for address, child in running:
            click.echo(f"{child.name}: http://{address}, process {child.pid}")
        urls = ",".join(f"http://{address}" for address, _ in running)
        option = "" if str(first) == HTTP and nodes == NODES else f" --url {urls}"
        click.echo(
            "\n".join(("", "next, in another terminal:", *_examples(first, option), "", "Ctrl-C ends all nodes."))
        )
        sys.stdout.flush()

    try_quorum(nodes, first, show=show, tell=lambda line: click.echo(f"pykraft: {line}", err=True))


def _examples(first: Endpoint, option: str) -> list[str]:
    return [
        f"  pykraft kv put{option} color red",
        f"  pykraft kv get{option} color",
        f"  pykraft kv watch{option} --prefix ''",
        f"  pykraft kv lock{option} backup -- sleep 5",
        f'  curl http://{first}/v1/get -d \'{{"key": "color"}}\'',
    ]
