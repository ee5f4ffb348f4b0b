"""``pykraft quorum add-controller`` and ``remove-controller``: change the voters while the quorum runs.

Options and output are those of Kafka's ``kafka-metadata-quorum``. The new node's own properties file, and the
``meta.properties`` in its log directory, describe it, so that nobody has to copy ids by hand.
`pykraft.client.remote.admin` talks to the leader.

Source: KIP-853 §Command line tool; Kafka's ``MetadataQuorumCommand``.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pykraft.cli.client_options import ClientOptions
from pykraft.cli.config_file import read_properties
from pykraft.cli.identity import parse_directory_id
from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.value import NumberType
from pykraft.cli.quorum.options import admin_of, joined, with_options
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.registration import unregister_controller
from pykraft.config.properties import node_config
from pykraft.errors import PykraftError, QuorumUnavailableError, UsageError
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.types import Endpoint, Listeners, NodeId, ReplicaKey, Uuid, uuid_text

T = TypeVar("T")

WATCH_S: Final = 5.0
"""A node that joins by itself asks for it every fetch timeout, by default every two seconds."""
WATCH_PAUSE_S: Final = 0.5

_DRY_RUN = click.option("--dry-run", is_flag=True, help="Print what would be done, and do nothing.")


@click.command("add-controller")
@with_options
@_DRY_RUN
@json_option
@click.pass_obj
def add_controller(before: dict[str, Any], /, *, dry_run: bool, as_json: bool, **after: Any) -> None:  # noqa: ANN401
    """Make a running, caught-up node a voter. --command-config is that node's own properties file."""
    path = after["command_config"] or before["command_config"]
    if path is None:
        raise UsageError("add-controller: give --command-config, the properties file of the node to be added")
    key, listeners = described_node(path)
    options = joined(before, after)
    if not dry_run:
        _do(options, lambda admin: admin.add_voter(key, listeners))
    endpoints = ", ".join(f"{name}://{endpoint}" for name, endpoint in listeners)
    directory_id = uuid_text(_directory_id(key))
    if as_json:
        document = {"id": key.id, "directoryId": directory_id, "endpoints": endpoints.split(", "), "dryRun": dry_run}
        click.echo(json.dumps(document))
        return
    verb = "DRY RUN of adding" if dry_run else "Added"
    click.echo(f"{verb} controller {key.id} with directory id {directory_id} and endpoints: {endpoints}")


@click.command("remove-controller")
@with_options
@click.option(
    "--controller-id", "-i", required=True, type=NumberType(int, 0, 2**31 - 1), help="The node.id of the voter."
)
@click.option(
    "--controller-directory-id", "-d", required=True, help="The directory id of the voter, as describe shows it."
)
@click.option(
    "--unregister", is_flag=True, help="Then also remove its registration with Kafka's controllers, from 4.4 on."
)
@_DRY_RUN
@json_option
@click.pass_obj
def remove_controller(
    before: dict[str, Any],
    /,
    *,
    controller_id: int,
    controller_directory_id: str,
    unregister: bool,
    dry_run: bool,
    as_json: bool,
    **after: Any,  # noqa: ANN401 - as click has them
) -> None:
    """Remove a voter from the quorum. A leader resigns once its own removal is committed.

    A node with controller.quorum.auto.join.enable joins again within seconds: stop it first. The command watches the
    voters for five seconds after the removal, and exits with 1 if the node is among them again.
    """
    key = ReplicaKey(NodeId(controller_id), parse_directory_id(controller_directory_id, "--controller-directory-id"))
    options = joined(before, after)
    if not dry_run:
        _do(options, lambda admin: admin.remove_voter(key))
    document: dict[str, Any] = {
        "id": key.id,
        "directoryId": controller_directory_id,
        "dryRun": dry_run,
        "joinedAgain": False,
    }
    if not as_json:
        verb = "DRY RUN of removing" if dry_run else "Removed"
        click.echo(f"{verb} KRaft controller {key.id} with directory id {controller_directory_id}")
    is_back = not dry_run and _do(options, lambda admin: _joins_again(admin, key))
    document["joinedAgain"] = is_back
    if unregister and not is_back:
        # The line above is out: if this fails, one knows that the voter is gone all the same.
        if not dry_run:
            _do(options, lambda admin: _unregister(admin, key.id, options))
        document["unregistered"] = True
        if not as_json:
            click.echo(f"{'DRY RUN of unregistering' if dry_run else 'Unregistered'} controller {key.id}")
    if as_json:
        click.echo(json.dumps(document))
    if is_back:
        raise PykraftError(
            f"controller {key.id} was removed and is a voter again, since it joins by itself: stop it before you "
            "remove it, or set controller.quorum.auto.join.enable=false and start it again"
        )


async def _joins_again(admin: Admin, key: ReplicaKey) -> bool:
    """Whether the removed node is a voter again within `WATCH_S`. Nobody else knows that it joins by itself."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + WATCH_S
    while loop.time() < end_s:
        await asyncio.sleep(WATCH_PAUSE_S)
        try:
            voters = (await admin.describe_quorum()).voters
        except QuorumUnavailableError as error:
            click.echo(f"the removal is committed, but nobody can tell whether the node joins again: {error}", err=True)
            return False
        if any(voter.key == key for voter in voters):
            return True
    return False


async def _unregister(admin: Admin, controller_id: NodeId, options: ClientOptions) -> None:
    async def find_leader() -> Endpoint | None:
        # A broker passes the request on to its controllers, whose addresses are not for clients.
        return (await admin.describe_quorum()).leader_endpoint if options.is_controllers else options.bootstrap[0]

    await unregister_controller(
        controller_id, find_leader, client_id=options.client_id, timeout_ms=options.request_timeout_ms
    )


def described_node(path: Path) -> tuple[ReplicaKey, Listeners]:
    """The node that a properties file and its log directory describe. Errors: UsageError, CorruptionError."""
    config = node_config(read_properties(path, "--command-config")).config
    file = config.log_dir / FILE_NAME
    fs = OsFs()
    if not fs.exists(file):
        raise UsageError(f"{file} does not exist: start the node once, or format its directory, before you add it")
    meta = parse_meta(file, fs.read(file))
    if meta.node_id != config.node_id:
        raise UsageError(f"{file} belongs to node {meta.node_id}, but {path} to node {config.node_id}")
    if meta.directory_id is None:
        raise UsageError(f"{file} has no directory.id: start the node once before you add it")
    named = [name.upper() for name in config.controller_listener_names]
    dialed = tuple((name, endpoint) for name, endpoint in config.advertised_listeners if name in named)
    return ReplicaKey(meta.node_id, meta.directory_id), Listeners(dialed)


def _do(options: ClientOptions, change: Callable[[Admin], Awaitable[T]]) -> T:
    async def ask() -> T:
        async with admin_of(options) as admin:
            return await change(admin)

    return asyncio.run(ask())


def _directory_id(key: ReplicaKey) -> Uuid:
    assert key.directory_id is not None
    return key.directory_id
