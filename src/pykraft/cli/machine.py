"""``pykraft machine skip``: pass over a command in the log that no node can apply."""

import asyncio
import json
from pathlib import Path

import click

from pykraft.cli.client_options import (
    admin_of,
    client_options,
    command_config_option,
    controllers_option,
    timeout_option,
)
from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import NumberType, json_option
from pykraft.config import INT64_MAX


@click.command()
@controllers_option
@command_config_option
@timeout_option
@click.option(
    "--offset", required=True, type=NumberType(int, 0, INT64_MAX), help="The offset that the nodes' error names."
)
@json_option
def skip(
    *, bootstrap_controller: str, command_config: Path | None, timeout: float | None, offset: int, as_json: bool
) -> None:
    """Skip the command at this offset, on all nodes and for good. Its caller is told that it was rejected.

    Start all nodes with this offset held first (hold_at, or --hold-at of pykraft kv serve): a leader skips no command
    that it has applied. Another node that has applied it ends: start that one again with an empty directory.
    """
    from pykraft.machine.log_skips import skip as record

    options = client_options(
        controllers=bootstrap_controller, command_config=command_config, timeout_s=timeout, client_id="pykraft-machine"
    )

    async def ask() -> int:
        async with admin_of(options) as admin:
            return await record(admin, offset, options.security)

    at = asyncio.run(ask())
    if as_json:
        click.echo(json.dumps({"skippedOffset": offset, "recordOffset": at}))
        return
    click.echo(f"Skipped the command at offset {offset}; the record that says so is at offset {at}")


@click.group(cls=Group)
def machine() -> None:
    """Repair the state machine that a quorum replicates."""


machine.add_command(skip)
