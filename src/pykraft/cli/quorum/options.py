"""The options of every verb of ``pykraft quorum``, before or after it, and the client that they configure.

Source: Kafka's ``MetadataQuorumCommand``, whose options stand before the verb.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

import click

from pykraft.cli.client_options import ClientOptions, client_options, command_config_option, timeout_option
from pykraft.cli.waiting_line import WaitingLine
from pykraft.client.remote.admin import Admin, NodeKind
from pykraft.client.remote.leader_search import OnWaiting
from pykraft.errors import UsageError

_OPTIONS: Final = (
    click.option("--bootstrap-controller", metavar="LIST", help="Controllers to contact first: host:port,…"),
    click.option("--bootstrap-server", metavar="LIST", help="Brokers of a Kafka cluster to contact first: host:port,…"),
    command_config_option,
    timeout_option,
)


def with_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that the group and every verb take."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def joined(before: dict[str, Any], after: dict[str, Any]) -> ClientOptions:
    """Merge the options before and after the verb. Errors: UsageError for an option that is given in both places."""
    for name, value in after.items():
        if value is not None and before[name] is not None:
            raise UsageError(f"--{name.replace('_', '-')} is given twice, before and after the verb")
    options = {name: before[name] if value is None else value for name, value in after.items()}
    return client_options(
        controllers=options["bootstrap_controller"],
        servers=options["bootstrap_server"],
        command_config=options["command_config"],
        timeout_s=options["timeout"],
        client_id="pykraft-quorum",
    )


@asynccontextmanager
async def admin_of(options: ClientOptions, on_waiting: OnWaiting | None = None) -> AsyncIterator[Admin]:
    """The client for these options; while it waits for a leader, it says on a terminal why, or calls ``on_waiting``."""
    kind = NodeKind.CONTROLLER if options.is_controllers else NodeKind.BROKER
    patience = options.patience(WaitingLine().tell if on_waiting is None else on_waiting)
    async with Admin(options.bootstrap, kind=kind, client_id=options.client_id, patience=patience) as admin:
        yield admin
