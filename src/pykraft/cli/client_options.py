"""Options of the commands that talk to a live quorum: nodes to contact, timeouts, and a file of client properties.

Those of ``pykraft quorum`` stand before or after the verb. Invariant: a file that asks for protection gets it, or is
refused. Other properties of Kafka's clients are ignored, as Kafka ignores unknown ones, so one file serves both tools.

Source: Kafka's ``MetadataQuorumCommand`` (options), ``AdminClientConfig`` (properties).
"""

import re
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from pykraft.cli.config_file import read_properties
from pykraft.cli.parsing.value import DECIMAL
from pykraft.cli.printable import WaitingLine
from pykraft.client.arguments import parse_bootstrap
from pykraft.client.remote.admin import Admin, NodeKind
from pykraft.client.remote.leader_search import OnWaiting, Patience
from pykraft.config.properties import Properties, with_origins
from pykraft.config.providers import resolve
from pykraft.errors import ConfigError, UsageError
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.types import Endpoint

TIMEOUT_S: Final = 15.0
TIMEOUT_S_MAX: Final = 86_400.0
REQUEST_TIMEOUT_MS: Final = 5_000
_MS_MAX: Final = 2**31 - 1

controllers_option = click.option(
    "--bootstrap-controller", required=True, metavar="LIST", help="Controllers to contact first: host:port,…"
)
command_config_option = click.option(
    "--command-config", type=click.Path(path_type=Path), help="File of client properties, as for Kafka's tools."
)
timeout_option = click.option(
    "--timeout", type=DECIMAL, help=f"Seconds to wait for a leader.  [default: {TIMEOUT_S:g}]"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Nodes to contact, the client id, and timeouts (ms: for the whole search, and for one request)."""

    bootstrap: tuple[Endpoint, ...]
    is_controllers: bool
    client_id: str
    timeout_ms: int
    request_timeout_ms: int
    security: Security = IN_THE_CLEAR

    def patience(self, on_waiting: OnWaiting) -> Patience:
        """How long to wait for a leader; ``on_waiting`` says why it takes so long."""
        return Patience(timeout_ms=self.timeout_ms, request_timeout_ms=self.request_timeout_ms, on_waiting=on_waiting)


def client_properties(path: Path) -> Properties:
    """The properties of ``--command-config``, with what ``${…}`` stands for. Errors: UsageError, ConfigError."""
    properties = read_properties(path, "--command-config")
    resolve(properties)
    return properties


def client_options(
    *,
    controllers: str | None,
    servers: str | None = None,
    command_config: Path | None,
    timeout_s: float | None,
    client_id: str,
) -> ClientOptions:
    """The checked options of a command line; the command line overrides the file. Errors: UsageError, ConfigError."""
    if (controllers is None) == (servers is None):
        problem = "give one of them, not both" if controllers is not None else "give one of them"
        raise UsageError(f"--bootstrap-controller, --bootstrap-server: {problem}, as host:port,…")
    properties = Properties() if command_config is None else client_properties(command_config)
    with with_origins(properties):
        security = Security.of_client(properties)
        from_file_ms = _milliseconds(properties, "default.api.timeout.ms", int(TIMEOUT_S * 1_000))
        request_timeout_ms = _milliseconds(properties, "request.timeout.ms", REQUEST_TIMEOUT_MS)
    if timeout_s is not None and not 0 < timeout_s <= TIMEOUT_S_MAX:
        raise UsageError(f"--timeout {timeout_s:g}: give more than 0 and at most {TIMEOUT_S_MAX:g} seconds")
    option, text = (
        ("--bootstrap-controller", controllers) if controllers is not None else ("--bootstrap-server", servers)
    )
    assert text is not None
    timeout_ms = from_file_ms if timeout_s is None else max(1, int(timeout_s * 1_000))
    return ClientOptions(
        bootstrap=parse_bootstrap(option, text),
        is_controllers=controllers is not None,
        client_id=properties.get("client.id", "").strip() or client_id,
        timeout_ms=timeout_ms,
        request_timeout_ms=min(timeout_ms, request_timeout_ms),
        security=security,
    )


def _milliseconds(properties: Mapping[str, str], key: str, default: int) -> int:
    text = properties.get(key, "").strip()
    if not text:
        return default
    if not re.fullmatch("[0-9]{1,10}", text) or not 1 <= int(text) <= _MS_MAX:
        raise ConfigError(key, text, f"a whole number of milliseconds from 1 to {_MS_MAX}")
    return int(text)


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
    patience = options.patience(WaitingLine().show if on_waiting is None else on_waiting)
    async with Admin(
        options.bootstrap, kind=kind, client_id=options.client_id, patience=patience, security=options.security
    ) as admin:
        yield admin
