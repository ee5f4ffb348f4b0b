"""``pykraft storage``: format a node's log directories, show them, and create ids; with Kafka's verbs and output.

One of three options names the first voters, unless the properties file has static voters. `pykraft.log.format` and
`pykraft.snapshot.bootstrap` write the files.

Source: Kafka's ``StorageTool`` (kafka-storage) and ``Formatter``.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import click

from pykraft.cli.config_file import read_properties
from pykraft.cli.identity import parse_cluster_id, parse_directory_id
from pykraft.cli.initial_voters import initial_voters
from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.group import Group
from pykraft.client.remote.voter_epochs import epochs_of
from pykraft.config import NodeConfig
from pykraft.config.known_properties import NODE_ID
from pykraft.config.properties import node_config
from pykraft.config.properties_format import origin_of, with_origins
from pykraft.errors import ConfigError, UnreachableError, UsageError
from pykraft.log.directory import is_reserved
from pykraft.log.format import Formatted, format_directories, inspect_directories, meta_in
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import VERSION, MetaProperties
from pykraft.rpc.context import RpcContext
from pykraft.types import NodeId, Uuid, uuid_text

_CONFIG: Final = click.option(
    "--config", "-c", "path", required=True, type=click.Path(path_type=Path), help="Properties file of the node."
)


@click.group(cls=Group, short_help="Format a node's log directories, or show them.")
def storage() -> None:
    """Prepare a node's log directories, as kafka-storage does."""


@storage.command("format")
@_CONFIG
@click.option("--cluster-id", "-t", required=True, help="Cluster id, the same on all nodes.")
@click.option("--ignore-formatted", "-g", is_flag=True, help="Skip directories that are already formatted.")
@click.option("--replica-directory-id", help="Directory id of the metadata directory; random by default.")
@click.option(
    "--standalone", "-s", is_flag=True, help="Start a dynamic quorum with this node as its only voter; others can join."
)
@click.option(
    "--initial-controllers",
    "-I",
    metavar="LIST",
    help="Start a dynamic quorum with these voters: id@host:port:directory-id,…",
)
@click.option(
    "--no-initial-controllers", "-N", is_flag=True, help="Format a node that joins an existing dynamic quorum."
)
@json_option
def format_command(
    *,
    path: Path,
    cluster_id: str,
    ignore_formatted: bool,
    replica_directory_id: str | None,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    as_json: bool,
) -> None:
    """Write meta.properties into each of the node's log directories, and the first voters of a dynamic quorum."""
    parse_cluster_id(cluster_id)
    properties = read_properties(path)
    config = node_config(properties).config
    with with_origins(properties):
        initial = initial_voters(
            config,
            standalone=standalone,
            controllers=initial_controllers,
            joins=no_initial_controllers,
            directory_id=None if replica_directory_id is None else parse_directory_id(replica_directory_id),
            random_uuid=lambda: _directory_id_of(config.log_dir),
        )
    assert config.node_id is not None, "a properties file has one"
    others = [other for other in _log_directories(properties) if other != config.log_dir]
    given = {} if initial.directory_id is None else {config.log_dir: initial.directory_id}
    done = format_directories(
        OsFs(),
        [*others, config.log_dir],
        node_id=config.node_id,
        cluster_id=cluster_id,
        directory_ids=given,
        ignore_formatted=ignore_formatted,
        random_uuid=_random_uuid,
        before_metadata=lambda: initial.write(OsFs(), config.partition_directory),
    )
    if any(one.is_new and one.path == config.log_dir for one in done):
        _warn_of_others(config, cluster_id)
    if as_json:
        document = _format_document(done, config.log_dir, cluster_id, config.node_id)
        click.echo(json.dumps({**document, "kraftVersion": initial.kraft_version}, indent=2))
        return
    for one in done:
        if one.is_new:
            kind = initial.kind if one.path == config.log_dir else "data"
            version = initial.kraft_version
            click.echo(f"Formatting {kind} directory {click.format_filename(one.path)} with kraft.version {version}.")
    if not any(one.is_new for one in done):
        click.echo("All of the log directories are already formatted.")


def _warn_of_others(config: NodeConfig, cluster_id: str) -> None:
    """Say which of the other static voters hold records, or cannot be asked: a majority that is formatted anew elects.

    It then elects a leader without these records, and nobody but the voters that still have them can tell (ADR 128).
    """
    endpoints = {voter.key.id: voter.listeners.get(config.default_listener) for voter in config.voters.voters}
    others = {id_: each for id_, each in endpoints.items() if each is not None and id_ != config.node_id}
    if not others:
        return
    told = asyncio.run(epochs_of(others, replace(RpcContext.of(config), cluster_id=cluster_id)))
    for node_id, found in told.items():
        if found == 0:
            continue
        what = str(found) if isinstance(found, UnreachableError) else f"{others[node_id]} is in epoch {found}"
        click.echo(
            f"WARNING: voter {node_id} may hold committed records ({what}). If most voters are formatted anew, they "
            "elect a leader without them: format one voter at a time, while a majority has all records.",
            err=True,
        )


@storage.command("info")
@_CONFIG
@json_option
def info_command(*, path: Path, as_json: bool) -> None:
    """Show the node's log directories and their meta.properties; exits with 1 if there are problems."""
    properties = read_properties(path)
    directories = sorted(_log_directories(properties))
    if not directories:
        raise UsageError(f"{path}: log.dirs is required: the directory that keeps the log")
    inspected = inspect_directories(OsFs(), directories, node_id=_node_id(properties))
    fields = _fields(inspected.meta)
    if as_json:
        found = [str(each) for each in inspected.found]
        document = {"directories": found, "metadata": fields or None, "problems": inspected.problems}
        click.echo(json.dumps(document, indent=2))
    else:
        _section("log directory", "log directories", [click.format_filename(each) for each in inspected.found])
        if fields:
            pairs = ", ".join(f"{key}={value}" for key, value in sorted(fields.items()))
            click.echo(f"Found metadata: {{{pairs}}}\n")
        _section("problem", "problems", inspected.problems)
    if inspected.problems:
        raise SystemExit(1)


@storage.command("random-uuid")
@json_option
def random_uuid_command(*, as_json: bool) -> None:
    """Print a random UUID in Kafka's text form, for a cluster id or a directory id."""
    text = uuid_text(_random_uuid())
    click.echo(json.dumps({"uuid": text}) if as_json else text)


def _directory_id_of(folder: Path) -> Uuid:
    """The id that a directory already has, or a new one. Errors: StorageError, CorruptionError."""
    meta = meta_in(OsFs(), folder)
    return _random_uuid() if meta is None or meta.directory_id is None else meta.directory_id


def _random_uuid() -> Uuid:
    """A random id that Kafka does not reserve and that does not start with a dash, like an option would."""
    while True:
        made = Uuid(os.urandom(16))
        if not is_reserved(made) and not uuid_text(made).startswith("-"):
            return made


def _log_directories(properties: Mapping[str, str]) -> list[Path]:
    """All of ``log.dirs`` (or ``log.dir``) and ``metadata.log.dir``, each once."""
    texts = (properties.get("log.dirs") or properties.get("log.dir") or "").split(",")
    texts.append(properties.get("metadata.log.dir", ""))
    return list(dict.fromkeys(Path(text.strip()) for text in texts if text.strip()))


def _node_id(properties: Mapping[str, str]) -> NodeId | None:
    """The id in the file, if there is one. Errors: ConfigError."""
    key = "node.id" if "node.id" in properties else "broker.id"
    text = properties.get(key, "").strip()
    if text and not (re.fullmatch("[0-9]{1,10}", text) and int(text) <= NODE_ID.most):
        raise ConfigError(key, text, NODE_ID.allowed, origin=origin_of(properties, key))
    return NodeId(int(text)) if text else None


def _fields(meta: MetaProperties | None) -> dict[str, str]:
    if meta is None:
        return {}
    fields = {"cluster.id": meta.cluster_id, "node.id": str(meta.node_id), "version": VERSION}
    if meta.directory_id is not None:
        fields["directory.id"] = uuid_text(meta.directory_id)
    return fields


def _section(one: str, many: str, lines: list[str]) -> None:
    """Kafka's lines: a heading, an indented line each, an empty line."""
    if lines:
        click.echo(f"Found {one if len(lines) == 1 else many}:")
        for line in lines:
            click.echo(f"  {line}")
        click.echo()


def _format_document(done: list[Formatted], metadata: Path, cluster_id: str, node_id: NodeId) -> dict[str, Any]:
    return {
        "clusterId": cluster_id,
        "nodeId": node_id,
        "directories": [
            {
                "path": str(one.path),
                "kind": "metadata" if one.path == metadata else "data",
                "directoryId": None if one.directory_id is None else uuid_text(one.directory_id),
                "formatted": one.is_new,
            }
            for one in done
        ],
    }
