"""``pykraft quorum``: describe a live quorum, with the verbs, columns and wording of Kafka's ``kafka-metadata-quorum``.

Both renderings are Kafka's, byte for byte: labels are padded to 24 columns, cells to the width of their column, each
followed by a tab, including the last. Options that Kafka takes before the verb are also accepted after it.
`pykraft.client.remote.admin` talks to the quorum.

Source: Kafka's ``MetadataQuorumCommand`` and ``ToolsUtils.prettyPrintTable``; KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import click

from pykraft.cli.client_options import ClientOptions
from pykraft.cli.json_option import json_option
from pykraft.cli.printable import printable
from pykraft.cli.quorum.leadership import transfer
from pykraft.cli.quorum.options import admin_of, joined, with_options
from pykraft.cli.quorum.upgrade import upgrade
from pykraft.cli.quorum.voters import add_controller, remove_controller
from pykraft.client.remote.quorum import Quorum, ReplicaState
from pykraft.errors import UsageError
from pykraft.types import ZERO_UUID, uuid_text

LABEL_WIDTH: Final = 24
COLUMNS: Final = (
    "NodeId",
    "DirectoryId",
    "LogEndOffset",
    "Lag",
    "LastFetchTimestamp",
    "LastCaughtUpTimestamp",
    "Status",
)


@click.group(short_help="Describe and change a live quorum, like kafka-metadata-quorum.")
@with_options
@click.pass_context
def quorum(context: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - passed on as click has them
    """Describe or change a live quorum, pykraft's or Kafka's. Its options may stand before or after the verb."""
    context.obj = options


quorum.add_command(add_controller)
quorum.add_command(remove_controller)
quorum.add_command(transfer)
quorum.add_command(upgrade)


@quorum.command()
@with_options
@click.option("--status", is_flag=True, help="Show leader, high watermark, lag, voters and observers.")
@click.option("--replication", is_flag=True, help="Show log end, lag and last fetch of each replica.")
@click.option("--human-readable", is_flag=True, help="With --replication: show ages instead of timestamps.")
@json_option
@click.pass_obj
def describe(
    before: dict[str, Any],
    /,
    *,
    status: bool,
    replication: bool,
    human_readable: bool,
    as_json: bool,
    **after: Any,  # noqa: ANN401 - as click has them
) -> None:
    """Show the quorum as its leader sees it. Exits with 1 if no node answers or none leads within --timeout."""
    if status == replication:
        raise UsageError("describe: give either --status or --replication")
    if human_readable and not replication:
        raise UsageError("--human-readable needs --replication")
    if human_readable and as_json:
        raise UsageError("--human-readable is for people, --json for programs: give one of them")
    found = asyncio.run(_ask(joined(before, after)))
    if as_json:
        click.echo(json.dumps(status_json(found) if status else [row_json(found, each) for each in found.replicas]))
        return
    now_ms = time.time_ns() // 1_000_000 if human_readable else None
    for line in status_lines(found) if status else table_lines(table(found, now_ms)):
        click.echo(line)


async def _ask(options: ClientOptions) -> Quorum:
    async with admin_of(options) as admin:
        return await admin.describe_quorum()


def status_lines(found: Quorum) -> Iterator[str]:
    """``describe --status``."""
    for name, value in status_json(found).items():
        shown = json.dumps(value) if isinstance(value, list) else printable(str(value))
        label = f"{name[0].upper()}{name[1:]}:"
        yield f"{label:<{LABEL_WIDTH}}{shown}"


def status_json(found: Quorum) -> dict[str, Any]:
    """The same, for programs; the names are Kafka's labels."""
    return {
        "clusterId": found.cluster_id,
        "leaderId": found.leader_id,
        "leaderEpoch": found.epoch,
        "highWatermark": -1 if found.high_watermark is None else found.high_watermark,
        "maxFollowerLag": found.max_follower_lag,
        "maxFollowerLagTimeMs": found.max_follower_lag_ms,
        "currentVoters": [_node_json(each) for each in found.voters],
        "currentObservers": [_node_json(each) for each in found.observers],
    }


def _node_json(replica: ReplicaState) -> dict[str, Any]:
    """A node; unknown fields are left out."""
    shown: dict[str, Any] = {"id": replica.key.id}
    if replica.key.directory_id is not None:
        shown["directoryId"] = uuid_text(replica.key.directory_id)
    if len(replica.listeners):
        shown["endpoints"] = [f"{name}://{endpoint}" for name, endpoint in replica.listeners]
    return shown


def row_json(found: Quorum, replica: ReplicaState) -> dict[str, Any]:
    """One row of ``describe --replication``; offsets and times (wall ms) are -1 if unknown."""
    return {
        "nodeId": replica.key.id,
        "directoryId": uuid_text(replica.key.directory_id or ZERO_UUID),
        "logEndOffset": replica.log_end_offset,
        "lag": found.lag(replica),
        "lastFetchTimestamp": replica.last_fetch_ms,
        "lastCaughtUpTimestamp": replica.last_caught_up_ms,
        "status": replica.role.value,
    }


def table(found: Quorum, now_ms: int | None = None) -> list[list[str]]:
    """``describe --replication`` as cells; with ``now_ms`` (wall), times are shown as ages."""
    rows = [list(COLUMNS)]
    for replica in found.replicas:
        shown = row_json(found, replica)
        if now_ms is not None:
            for name in ("lastFetchTimestamp", "lastCaughtUpTimestamp"):
                if shown[name] >= 0:
                    shown[name] = f"{now_ms - shown[name]} ms ago"
        rows.append([str(value) for value in shown.values()])
    return rows


def table_lines(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Cells as Kafka prints a table."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "".join(f"{cell:<{width}}\t" for cell, width in zip(row, widths, strict=True))
