"""``pykraft quorum``: describe and change a live quorum, with the verbs, columns and wording of Kafka's tools.

Options that Kafka takes before the verb are also accepted after it. ``transfer``, which Kafka lacks, needs a leader of
ours.

Source: Kafka's ``MetadataQuorumCommand``, ``FeatureCommand``; KIP-584, KIP-595, KIP-836, KIP-853; Raft thesis §3.10.
"""

import asyncio
import json
import re
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from pykraft.cli.client_options import ClientOptions, admin_of, joined, with_options
from pykraft.cli.config_file import parse_directory_id, parsed_config, read_properties
from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import DECIMAL, ExistingPath, NumberType, json_option
from pykraft.cli.printable import printable
from pykraft.cli.quorum.overview import row_json, status_json, status_lines, table, table_lines
from pykraft.client.remote.admin import Admin
from pykraft.client.remote.quorum import Quorum, shared_endpoints
from pykraft.config import TRANSFER_TIMEOUT_MS, TRANSFER_TIMEOUT_MS_MAX
from pykraft.errors import ErrorCode, PykraftError, QuorumUnavailableError, RefusedError, UsageError
from pykraft.log.os_fs import OsFs
from pykraft.log.small_files.meta import FILE_NAME, parse_meta
from pykraft.rpc.api_versions import KRAFT_VERSION_FEATURE
from pykraft.text.words import in_ms
from pykraft.types import Listeners, NodeId, ReplicaKey, Uuid, uuid_text

T = TypeVar("T")

VOTERS_WATCH_S: Final = 5.0
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
            _do(options, lambda admin: admin.unregister_controller(key.id))
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
    """Whether the removed node is a voter again within `VOTERS_WATCH_S`. Nobody else knows that it joins by itself."""
    loop = asyncio.get_running_loop()
    end_s = loop.time() + VOTERS_WATCH_S
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


def described_node(path: Path) -> tuple[ReplicaKey, Listeners]:
    """The node that a properties file and its log directory describe. Errors: UsageError, CorruptionError."""
    config = parsed_config(read_properties(path, "--command-config")).config
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


CATCH_UP_S_MAX: Final = TRANSFER_TIMEOUT_MS_MAX / 1_000


@click.command()
@with_options
@click.option(
    "--to",
    "target_id",
    required=True,
    type=NumberType(int, 0, 2**31 - 1),
    help="Node id of the voter that should lead.",
)
@click.option(
    "--catch-up",
    "catch_up_s",
    type=DECIMAL,
    default=TRANSFER_TIMEOUT_MS / 1_000,
    show_default=True,
    help="Seconds that the leader accepts no records while the voter catches up.",
)
@json_option
@click.pass_obj
def transfer(
    before: dict[str, Any],
    /,
    *,
    target_id: int,
    catch_up_s: float,
    as_json: bool,
    **after: Any,  # noqa: ANN401 - as click has them
) -> None:
    """Transfer leadership to a voter. The leader hands over only if the voter is running and has the whole log.

    If that voter leads already, there is nothing to do, and the command says so.
    """
    if not 0 <= catch_up_s <= CATCH_UP_S_MAX:
        raise UsageError(f"--catch-up {catch_up_s:g}: give 0 to {CATCH_UP_S_MAX:g} seconds")
    options = joined(before, after)

    async def ask() -> tuple[int, bool]:
        """The epoch of the voter, and whether it led already."""
        async with admin_of(options) as admin:
            try:
                return await admin.transfer_leadership(target_id, timeout_ms=round(catch_up_s * 1_000)), False
            except RefusedError as error:
                # What was asked for is so: Kafka's kafka-leader-election exits with 0 then, too.
                if error.code != ErrorCode.ELECTION_NOT_NEEDED:
                    raise
                return (await admin.describe_quorum()).epoch, True

    begun_s = time.monotonic()
    epoch, led_already = asyncio.run(ask())
    took_ms = 0 if led_already else round((time.monotonic() - begun_s) * 1_000)
    if as_json:
        click.echo(json.dumps({"leaderId": target_id, "leaderEpoch": epoch, "tookMs": took_ms}))
    elif led_already:
        click.echo(f"Node {target_id} leads epoch {epoch} already: nothing to do")
    else:
        click.echo(f"Node {target_id} leads epoch {epoch} after {in_ms(took_ms)}")


_FEATURE: Final = re.compile(r"([a-z.]+)=([0-9]{1,4})")


@click.command()
@with_options
@click.option(
    "--feature", metavar="NAME=LEVEL", required=True, help="Feature and its new level; the only one is kraft.version=1."
)
@click.option("--dry-run", is_flag=True, help="Only ask the leader whether the upgrade is possible.")
@json_option
@click.pass_obj
def upgrade(
    before: dict[str, Any],
    /,
    *,
    feature: str,
    dry_run: bool,
    as_json: bool,
    **after: Any,  # noqa: ANN401 - as click has them
) -> None:
    """Move static voters into the log by raising kraft.version to 1, for good. All voters must be running."""
    level = level_of(feature)
    options = joined(before, after)

    async def ask() -> None:
        async with admin_of(options) as admin:
            await admin.upgrade_kraft_version(level, validate_only=dry_run)

    asyncio.run(ask())
    if as_json:
        click.echo(json.dumps({"feature": KRAFT_VERSION_FEATURE, "level": level, "dryRun": dry_run}))
    else:
        done = "can be upgraded" if dry_run else "was upgraded"
        click.echo(f"{KRAFT_VERSION_FEATURE} {done} to {level}.")


def level_of(feature: str) -> int:
    """The level of kraft.version that ``NAME=LEVEL`` names. Errors: UsageError."""
    found = _FEATURE.fullmatch(feature)
    if found is None:
        raise UsageError(f"--feature {feature[:100]!r}: give NAME=LEVEL, such as kraft.version=1")
    if found[1] != KRAFT_VERSION_FEATURE:
        raise UsageError(f"--feature {found[1]}: a pykraft quorum has only the feature {KRAFT_VERSION_FEATURE}")
    return int(found[2])


WATCH_S: Final = 2.0
WATCH_S_MIN: Final = 0.1
WATCH_S_MAX: Final = 3_600.0


@click.group(cls=Group, short_help="Describe and change a live quorum, like kafka-metadata-quorum.")
@with_options
@click.pass_context
def quorum(context: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - passed on as click has them
    """Describe or change a live quorum of pykraft or Kafka. The options may come before or after the command."""
    context.obj = options


@click.command("reload")
@click.argument(
    "directory", type=ExistingPath("give the log directory of a node that runs on this machine", is_folder=True)
)
@json_option
@click.pass_obj
def reload_files(before: dict[str, Any], /, *, directory: Path, as_json: bool) -> None:
    """Let the node of DIRECTORY on this machine take up changed certificates, users, keys, rules and credentials.

    DIRECTORY is the log directory of the node. A node also looks at its files by itself, every five seconds. The
    command prints what became of each file, and exits with 1 if one cannot be used; its former content stays in use.
    """
    from pykraft.server.reload import ask_to_reload

    given = next((name for name, value in before.items() if value is not None), None)
    if given is not None:
        raise UsageError(f"reload is for a node on this machine: leave out --{given.replace('_', '-')}")
    found = ask_to_reload(directory)
    if as_json:
        click.echo(json.dumps(found))
    for each in () if as_json else found["files"]:
        reason = "" if each["problem"] is None else f", the former ones stay in use: {printable(each['problem'])}"
        click.echo(f"{each['what']} ({printable(', '.join(each['files']))}): {each['state']}{reason}")
    refused = sum(each["problem"] is not None for each in found["files"])
    if refused:
        raise PykraftError(f"{refused} of {len(found['files'])} cannot be taken up")


quorum.add_command(add_controller)
quorum.add_command(reload_files)
quorum.add_command(remove_controller)
quorum.add_command(transfer)
quorum.add_command(upgrade)


@quorum.command()
@with_options
@click.option("--status", is_flag=True, help="Show leader, high watermark, lag, voters and observers.")
@click.option("--replication", is_flag=True, help="Show log end, lag and last fetch of each replica.")
@click.option("--human-readable", is_flag=True, help="With --replication: show ages instead of timestamps.")
@click.option(
    "--watch",
    "watch_s",
    metavar="[SECONDS]",
    is_flag=False,
    flag_value=WATCH_S,
    type=NumberType(float, WATCH_S_MIN, WATCH_S_MAX),
    help=f"Look again every SECONDS, {WATCH_S:g} by default, until Ctrl-C.",
)
@json_option
@click.pass_obj
def describe(
    before: dict[str, Any],
    /,
    *,
    status: bool,
    replication: bool,
    human_readable: bool,
    watch_s: float | None,
    as_json: bool,
    **after: Any,  # noqa: ANN401 - as click has them
) -> None:
    """Show the quorum as its leader sees it: a verdict, the quorum, and each replica.

    With --status or --replication it prints just that, as Kafka's tool does. It waits for a leader until --timeout, and
    exits with 1 if none is found, or at once if no node answers.
    """
    if status and replication:
        raise UsageError("describe: give --status or --replication, or neither of them for both")
    if human_readable and not replication:
        raise UsageError("--human-readable needs --replication")
    if human_readable and as_json:
        raise UsageError("--human-readable and --json: give one of them")
    if watch_s is not None and (status or replication):
        raise UsageError("--watch shows all of the quorum: give it without --status and --replication")
    options = joined(before, after)
    if watch_s is not None:
        from pykraft.cli.quorum.overview import watch_overview

        watch_overview(options, watch_s, as_json=as_json)
        return
    found = asyncio.run(_ask(options, ask_voters=not status and not replication))
    if not status and not replication:
        from pykraft.cli.quorum.overview import print_overview

        print_overview(found, as_json=as_json)
        return
    if as_json:
        click.echo(json.dumps(status_json(found) if status else [row_json(found, each) for each in found.replicas]))
        return
    now_ms = time.time_ns() // 1_000_000 if human_readable else None
    for problem in shared_endpoints(found) if status else ():
        click.echo(f"pykraft: {printable(problem)}", err=True)
    for line in status_lines(found) if status else table_lines(table(found, now_ms)):
        click.echo(line)


async def _ask(options: ClientOptions, *, ask_voters: bool) -> Quorum:
    async with admin_of(options) as admin:
        return await admin.describe_quorum(ask_voters=ask_voters)
