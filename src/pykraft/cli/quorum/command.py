"""``pykraft quorum``: describe a live quorum, with the verbs, columns and wording of Kafka's ``kafka-metadata-quorum``.

`pykraft.cli.quorum.views` has Kafka's two views, `pykraft.cli.quorum.overview` our own of both. Options that Kafka
takes before the verb are also accepted after it. `pykraft.client.remote.admin` talks to the quorum.

Source: Kafka's ``MetadataQuorumCommand``; KIP-595, KIP-836, KIP-853.
"""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Final

import click

from pykraft.cli.client_options import ClientOptions
from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import NumberType
from pykraft.cli.printable import printable
from pykraft.cli.quorum.leadership import transfer
from pykraft.cli.quorum.options import admin_of, joined, with_options
from pykraft.cli.quorum.upgrade import upgrade
from pykraft.cli.quorum.views import row_json, status_json, status_lines, table, table_lines
from pykraft.cli.quorum.voters import add_controller, remove_controller
from pykraft.client.remote.quorum import Quorum
from pykraft.client.remote.verdict import shared_endpoints
from pykraft.errors import UsageError

WATCH_S: Final = 2.0
WATCH_S_MIN: Final = 0.1
WATCH_S_MAX: Final = 3_600.0


@click.group(cls=Group, short_help="Describe and change a live quorum, like kafka-metadata-quorum.")
@with_options
@click.pass_context
def quorum(context: click.Context, /, **options: Any) -> None:  # noqa: ANN401 - passed on as click has them
    """Describe or change a live quorum of pykraft or Kafka. The options may come before or after the command."""
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
