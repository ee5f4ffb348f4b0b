"""Options of the commands that ask nodes of the key-value service, and of the one that serves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from pykraft.cli.parsing.value import NumberType

if TYPE_CHECKING:  # imported when a command runs, so that --help is quick
    from pykraft.kv.client import KeyValueClient

HTTP: Final = "127.0.0.1:7080"
"""Node 1 of `pykraft kv serve`; the others have the next ports."""
URLS: Final = "http://127.0.0.1:7080,http://127.0.0.1:7081,http://127.0.0.1:7082"
TIMEOUT_S: Final = 15.0
SECONDS: Final = NumberType(float, 0.1, 86_400)

url_option = click.option(
    "--url",
    "urls",
    default=URLS,
    envvar="PYKRAFT_KV_URL",
    metavar="LIST",
    help="Nodes to ask, the next one if one does not answer; also PYKRAFT_KV_URL."
    "  [default: the three of `pykraft kv serve`]",
)
timeout_option = click.option(
    "--timeout", type=SECONDS, default=TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)
prefix_option = click.option("--prefix", "is_prefix", is_flag=True, help="All keys that begin with KEY.")


def client_of(urls: str, timeout_s: float) -> KeyValueClient:
    """The client for these options. Errors: UsageError."""
    from pykraft.kv.client import KeyValueClient

    return KeyValueClient([url.strip() for url in urls.split(",") if url.strip()], timeout_s=timeout_s)


def wanted_range(key: str, *, is_prefix: bool) -> dict[str, str]:
    """The range for a request."""
    return {"prefix" if is_prefix else "key": key}
