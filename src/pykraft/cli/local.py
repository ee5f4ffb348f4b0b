"""``pykraft local``: a quorum on this machine, in one folder, whose nodes outlive the command."""

from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import DECIMAL, WHOLE, NumberType, json_option
from pykraft.cli.printable import print_lines
from pykraft.errors import UsageError
from pykraft.text.table import table_lines as aligned_lines
from pykraft.text.table import terminal_width
from pykraft.text.words import counted

if TYPE_CHECKING:  # imported when a verb runs, so that --help is quick
    from pykraft.local.background_quorum import LocalNode, LocalQuorum

FOLDER: Final = "pykraft-local"
EXIT_NOT_WHOLE: Final = 1
PORT_MAX: Final = 65535 - 14
"""So that the last of the most nodes has a port, too."""
COLUMNS: Final = ("NODE", "STATE", "PID", "ROLE", "EPOCH", "LOG END", "ENDPOINT")

_folder_option = click.option(
    "--dir",
    "path",
    type=click.Path(path_type=Path),
    default=FOLDER,
    show_default=True,
    help="Folder of the quorum: properties, data, logs.",
)


@click.group(cls=Group, short_help="Run a quorum on this machine: up, status, down.")
def local() -> None:
    """Run a quorum on this machine. Its files are in one folder, and its nodes run until `down` stops them."""


@local.command()
@click.option("--nodes", type=WHOLE, help="Voters of a new quorum.  [default: 3]")
@click.option(
    "--port",
    "first_port",
    type=NumberType(int, 1, PORT_MAX),
    help="Port of node 1 of a new quorum; the others take the next ones.  [default: free ports]",
)
@click.option("--tls", "has_tls", is_flag=True, help="Make a throw-away CA; nodes and tools then need certificates.")
@_folder_option
@click.option("--timeout", type=DECIMAL, default=30.0, show_default=True, help="Seconds to wait for a leader.")
@json_option
def up(*, nodes: int | None, first_port: int | None, has_tls: bool, path: Path, timeout: float, as_json: bool) -> None:
    """Start the quorum in the folder, or a new one, and wait for its leader.

    After `down`, a crash or a reboot, `up` continues the same quorum on the same ports. If no node leads in time, `up`
    stops the nodes that it started.
    """
    from pykraft.local.background_quorum import bring_up

    if timeout <= 0:
        raise UsageError(f"--timeout {timeout:g}: give more than 0 seconds")

    def show(found: LocalQuorum) -> None:
        if as_json:
            click.echo(json.dumps(as_json_object(found)))
        else:
            print_lines([headline(found), "", *table_lines(found), ""])
            click.echo("\n".join(next_lines(found, path)))

    found = bring_up(
        path, node_count=nodes, first_port=first_port, has_tls=has_tls, timeout_s=timeout, report=_warn, show=show
    )
    if not found.is_whole:
        sys.exit(EXIT_NOT_WHOLE)


@local.command()
@_folder_option
@json_option
def status(*, path: Path, as_json: bool) -> None:
    """Show each node. Exits with 0 if all are up and one leads, else with 1."""
    from pykraft.local.background_quorum import status_of

    found = status_of(path)
    if as_json:
        click.echo(json.dumps(as_json_object(found)))
    else:
        print_lines([headline(found), "", *table_lines(found)])
    if not found.is_whole:
        sys.exit(EXIT_NOT_WHOLE)


@local.command()
@_folder_option
@click.option("--delete", is_flag=True, help="Also remove the quorum's files, with all its records.")
@click.option("--yes", is_flag=True, help="With --delete: do not ask.")
def down(*, path: Path, delete: bool, yes: bool) -> None:
    """Stop the nodes gracefully, the leader last. Their files stay, so that `up` can continue."""
    from pykraft.local.background_quorum import take_down
    from pykraft.local.quorum_folder import QuorumFolder

    if yes and not delete:
        raise UsageError("--yes needs --delete")
    if delete and not yes:
        QuorumFolder.read(path)
        if not sys.stdin.isatty():
            raise UsageError("--delete asks for confirmation on a terminal: without one, give --yes, too")
        click.confirm(f"Stop the quorum in {path} and remove all its records?", abort=True)
    count, left = take_down(path, delete=delete, report=_warn)
    stopped = f"stopped {counted(count, 'node')}" if count else "no node was running"
    click.echo(f"{stopped}; " + (f"removed the files in {path}" if delete else f"the files stay in {path}"))
    if left:
        _warn(f"kept files that pykraft did not create: {', '.join(map(str, left))}")


def headline(found: LocalQuorum) -> str:
    """One sentence about the whole quorum."""
    running = sum(node.pid is not None for node in found.nodes)
    who = "no node leads" if found.leader_id is None else f"node {found.leader_id} leads epoch {found.epoch}"
    committed = "" if found.high_watermark is None else f", committed up to offset {found.high_watermark:,}"
    return f"{running} of {counted(len(found.nodes), 'node')} up, {who}{committed}"


def table_lines(found: LocalQuorum) -> list[str]:
    """A row for each node, as blocks on a narrow terminal, and where each log is: a path has a line of its own."""
    lines = aligned_lines(COLUMNS, [_row(found, node) for node in found.nodes], width=terminal_width())
    logs = [f"log of node {node.node_id}: {os.path.relpath(node.log_path)}" for node in found.nodes]
    return [*lines, "", *logs]


def next_lines(found: LocalQuorum, path: Path) -> list[str]:
    """What to type next."""
    folder = "" if path == Path(FOLDER) else f" --dir {shlex.quote(str(path))}"
    bootstrap = f"--bootstrap-controller {found.folder.bootstrap}"
    config = found.folder.client_config
    if config is not None:
        bootstrap += f" --command-config {shlex.quote(os.path.relpath(config))}"
    return [
        "next:",
        f"  pykraft append {bootstrap}",
        f"  pykraft tail {bootstrap} --follow",
        f"  pykraft quorum {bootstrap} describe --status",
        f"  pykraft local status{folder}",
        f"  pykraft local down{folder}",
    ]


def as_json_object(found: LocalQuorum) -> dict[str, Any]:
    """The same for programs; what is unknown is null."""
    return {
        "folder": str(found.folder.path),
        "clusterId": found.folder.cluster_id,
        "bootstrap": found.folder.bootstrap,
        "commandConfig": None if found.folder.client_config is None else str(found.folder.client_config),
        "leaderId": found.leader_id,
        "leaderEpoch": found.epoch,
        "highWatermark": found.high_watermark,
        "nodes": [
            {
                "nodeId": node.node_id,
                "pid": node.pid,
                "role": node.role,
                "endpoint": str(node.endpoint),
                "logEndOffset": node.log_end_offset,
                "logFile": str(node.log_path),
                "config": str(node.config_path),
            }
            for node in found.nodes
        ],
    }


def _row(found: LocalQuorum, node: LocalNode) -> tuple[str, ...]:
    def shown(value: object) -> str:
        return "-" if value is None else str(value)

    # The epoch is that of the leader, to which this node has spoken.
    epoch = found.epoch if node.pid is not None and node.log_end_offset is not None else None
    return (
        str(node.node_id),
        "down" if node.pid is None else "up",
        shown(node.pid),
        node.role,
        shown(epoch),
        "-" if node.log_end_offset is None else f"{node.log_end_offset:,}",
        str(node.endpoint),
    )


def _warn(text: str) -> None:
    click.echo(f"pykraft: {text}", err=True)
