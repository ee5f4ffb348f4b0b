"""``pykraft storage``: format a node's log directories, show them, and create ids; with Kafka's verbs and output.

One of three options names the first voters, unless the properties file has static voters. Invariant: accepted options
make a quorum that can start, and a list means the same on every node.

Source: Kafka's ``StorageTool`` (kafka-storage), ``Formatter`` and ``DynamicVoters``; KIP-853 §Bootstrapping, KIP-1170.
"""

import asyncio
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import click

from pykraft import types
from pykraft.cli.config_file import parse_cluster_id, parse_directory_id, parsed_config, read_properties
from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import json_option
from pykraft.cli.users import existing
from pykraft.client.remote.admin import epochs_of
from pykraft.config import NEVER_LEADS_KEY, ONLY_VOTER, NodeConfig
from pykraft.config.known_properties import NODE_ID
from pykraft.config.properties import origin_of, with_origins
from pykraft.config.providers import resolve
from pykraft.errors import ConfigError, UnreachableError, UsageError
from pykraft.log.directory import Formatted, format_directories, inspect_directories, is_reserved, meta_in
from pykraft.log.fs import Fs
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import VERSION, MetaProperties
from pykraft.rpc.context import RpcContext
from pykraft.security.users import USERS_FILE, parse_new_user, users_files, write_users
from pykraft.snapshot.writer import BOOTSTRAP_KRAFT_VERSION, write_bootstrap

_VOTERS = "controller.quorum.voters"
FORM = "id@host:port:directory-id"
_CONTROLLER = re.compile(r"([0-9]{1,10})@(\[[^\]]+\]|[^:\[\]]+):([0-9]{1,5}):([A-Za-z0-9_-]{22})")
_ID_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Initial:
    """What to format: the level of kraft.version, Kafka's term for such a directory, and the first voters if known.

    ``directory_id`` is that of the metadata directory; None for a random one.
    """

    kraft_version: int
    kind: str
    voters: types.VoterSet | None
    directory_id: types.Uuid | None

    def write(self, fs: Fs, partition: Path) -> None:
        """The checkpoint of a dynamic quorum; nothing for a static one. Errors: StorageError."""
        if self.kraft_version >= BOOTSTRAP_KRAFT_VERSION:
            write_bootstrap(fs, partition, self.voters)


def initial_voters(
    config: NodeConfig,
    *,
    standalone: bool,
    controllers: str | None,
    joins: bool,
    directory_id: types.Uuid | None,
    random_uuid: Callable[[], types.Uuid],
) -> Initial:
    """What the options mean for this node. Errors: UsageError, ConfigError."""
    given = {
        "--standalone": standalone,
        "--initial-controllers": controllers is not None,
        "--no-initial-controllers": joins,
    }
    named = [name for name, is_given in given.items() if is_given]
    if len(named) > 1:
        raise UsageError(f"{' and '.join(named)}: give one of them")
    if len(config.voters):
        if named:
            static = ",".join(f"{voter.key.id}@{voter.listeners.entries[0][1]}" for voter in config.voters.voters)
            raise ConfigError(_VOTERS, static, f"names static voters, but {named[0]} is for a dynamic quorum")
        return Initial(kraft_version=0, kind="metadata", voters=None, directory_id=directory_id)
    if not named:
        raise ConfigError(
            _VOTERS,
            "",
            "is required for static voters; for a dynamic quorum give --standalone, --initial-controllers with the "
            "same list on each node, or --no-initial-controllers for a node that joins later",
        )
    if not config.may_vote and not joins:
        allowed = f"lets this node only observe Kafka's controllers, but {named[0]} makes it a voter: give "
        raise ConfigError("pykraft.topic", config.topic_name, f"{allowed}--no-initial-controllers")
    if config.raft.never_leads and standalone:
        raise ConfigError(NEVER_LEADS_KEY, "true", ONLY_VOTER)
    if joins:
        return Initial(kraft_version=1, kind="dynamic metadata", voters=None, directory_id=directory_id)
    if controllers is None:
        own = _this_node(config, directory_id or random_uuid())
        return Initial(
            kraft_version=1,
            kind="dynamic metadata voter",
            voters=types.VoterSet.of([own]),
            directory_id=own.key.directory_id,
        )
    voters = parse_controllers(controllers, config.default_listener)
    listed = voters.get(config.node_id)
    if listed is None:
        raise UsageError(
            f"--initial-controllers does not name node.id {config.node_id}; to join later give --no-initial-controllers"
        )
    if directory_id not in (None, listed.key.directory_id):
        raise UsageError("--replica-directory-id is not the one that --initial-controllers gives for this node")
    if config.raft.never_leads and len(voters) == 1:
        raise ConfigError(NEVER_LEADS_KEY, "true", ONLY_VOTER)
    return Initial(kraft_version=1, kind="dynamic metadata voter", voters=voters, directory_id=listed.key.directory_id)


def parse_controllers(text: str, listener: str) -> types.VoterSet:
    """A list of ``id@host:port:directory-id``, IPv6 in brackets. Errors: UsageError that names the entry."""
    voters: dict[int, types.Voter] = {}
    for entry in (part.strip() for part in text.split(",")):
        match = _CONTROLLER.fullmatch(entry)
        if match is None:
            raise UsageError(f"--initial-controllers: {entry!r} does not have the form {FORM}")
        node_id, port, directory = int(match[1]), int(match[3]), types.uuid_parse(match[4])
        endpoint = types.Endpoint(match[2].strip("[]"), port)
        if node_id > _ID_MAX or not endpoint.can_be_dialed:
            problem = (
                f"an id above {_ID_MAX}, or a host or port that cannot be dialed (ports are 1 to {types.PORT_MAX})"
            )
            raise UsageError(f"--initial-controllers: {entry!r} has {problem}")
        if is_reserved(directory):
            raise UsageError(f"--initial-controllers: {entry!r} has a directory id that Kafka reserves")
        if node_id in voters:
            raise UsageError(f"--initial-controllers: id {node_id} is given twice")
        if any(voter.key.directory_id == directory for voter in voters.values()):
            raise UsageError(f"--initial-controllers: directory id {match[4]} is given twice")
        voters[node_id] = _voter(types.NodeId(node_id), directory, types.Listeners(((listener.upper(), endpoint),)))
    return types.VoterSet.of(voters.values())


def _this_node(config: NodeConfig, directory_id: types.Uuid) -> types.Voter:
    assert config.node_id is not None
    name = config.default_listener
    endpoint = config.advertised_listeners.get(name)
    assert endpoint is not None, "the configuration was checked"
    listeners = types.Listeners(((name.upper(), types.Endpoint(endpoint.host or "localhost", endpoint.port)),))
    return _voter(config.node_id, directory_id, listeners)


def _voter(node_id: types.NodeId, directory_id: types.Uuid, listeners: types.Listeners) -> types.Voter:
    return types.Voter(
        key=types.ReplicaKey(node_id, directory_id), listeners=listeners, kraft_version=types.KRAFT_VERSIONS
    )


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
@click.option(
    "--add-scram",
    "-S",
    multiple=True,
    metavar="USER",
    help="Add a user to the file that pykraft.scram.users names: SCRAM-SHA-256=[name=alice,password=…].",
)
@json_option
def format_command(  # noqa: PLR0913 - keyword-only, an option each
    *,
    path: Path,
    cluster_id: str,
    ignore_formatted: bool,
    replica_directory_id: str | None,
    standalone: bool,
    initial_controllers: str | None,
    no_initial_controllers: bool,
    add_scram: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write meta.properties into each of the node's log directories, and the first voters of a dynamic quorum."""
    parse_cluster_id(cluster_id)
    properties = read_properties(path)
    config = parsed_config(properties).config
    add_users = _new_users(config, add_scram)
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
        random_uuid=random_uuid,
        before_metadata=lambda: initial.write(OsFs(), config.partition_directory),
    )
    add_users()
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


def _new_users(config: NodeConfig, add_scram: Sequence[str]) -> Callable[[], None]:
    """Writes the users into the files of all listeners. Errors: UsageError; ConfigError if there is no file."""
    new = [parse_new_user(text) for text in add_scram]
    files = {path: existing(path) for _, security in config.security for path in users_files(security)} if new else {}
    if new and not files:
        raise ConfigError(USERS_FILE, "", "is required for --add-scram: the file that keeps the users")
    for user in new:
        for known in files.values():
            user.add_to(known)

    def write() -> None:
        for path, known in files.items():
            write_users(path, known)

    return write


def _warn_of_others(config: NodeConfig, cluster_id: str) -> None:
    """Say which of the other static voters hold records, or cannot be asked: a majority that is formatted anew elects.

    It then elects a leader without these records, and nobody but the voters that still have them can tell (ADR 128).
    """
    endpoints = {voter.key.id: voter.listeners.get(config.default_listener) for voter in config.voters.voters}
    others = {id_: each for id_, each in endpoints.items() if each is not None and id_ != config.node_id}
    if not others:
        return
    told = asyncio.run(
        epochs_of(others, replace(RpcContext.of(config), cluster_id=cluster_id), config.security_between_nodes)
    )
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
    resolve(properties)
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
    text = types.uuid_text(random_uuid())
    click.echo(json.dumps({"uuid": text}) if as_json else text)


def _directory_id_of(folder: Path) -> types.Uuid:
    meta = meta_in(OsFs(), folder)
    return random_uuid() if meta is None or meta.directory_id is None else meta.directory_id


def random_uuid() -> types.Uuid:
    """A random id that Kafka does not reserve and that does not start with a dash, like an option would."""
    while True:
        made = types.Uuid(os.urandom(16))
        if not is_reserved(made) and not types.uuid_text(made).startswith("-"):
            return made


def _log_directories(properties: Mapping[str, str]) -> list[Path]:
    """All of ``log.dirs`` (or ``log.dir``) and ``metadata.log.dir``, each once."""
    texts = (properties.get("log.dirs") or properties.get("log.dir") or "").split(",")
    texts.append(properties.get("metadata.log.dir", ""))
    return list(dict.fromkeys(Path(text.strip()) for text in texts if text.strip()))


def _node_id(properties: Mapping[str, str]) -> types.NodeId | None:
    key = "node.id" if "node.id" in properties else "broker.id"
    text = properties.get(key, "").strip()
    if text and not (re.fullmatch("[0-9]{1,10}", text) and int(text) <= NODE_ID.most):
        raise ConfigError(key, text, NODE_ID.allowed, origin=origin_of(properties, key))
    return types.NodeId(int(text)) if text else None


def _fields(meta: MetaProperties | None) -> dict[str, str]:
    if meta is None:
        return {}
    fields = {"cluster.id": meta.cluster_id, "node.id": str(meta.node_id), "version": VERSION}
    if meta.directory_id is not None:
        fields["directory.id"] = types.uuid_text(meta.directory_id)
    return fields


def _section(one: str, many: str, lines: list[str]) -> None:
    if lines:
        click.echo(f"Found {one if len(lines) == 1 else many}:")
        for line in lines:
            click.echo(f"  {line}")
        click.echo()


def _format_document(done: list[Formatted], metadata: Path, cluster_id: str, node_id: types.NodeId) -> dict[str, Any]:
    return {
        "clusterId": cluster_id,
        "nodeId": node_id,
        "directories": [
            {
                "path": str(one.path),
                "kind": "metadata" if one.path == metadata else "data",
                "directoryId": None if one.directory_id is None else types.uuid_text(one.directory_id),
                "formatted": one.is_new,
            }
            for one in done
        ],
    }
