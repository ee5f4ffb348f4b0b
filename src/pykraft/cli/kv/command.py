"""`pykraft kv`: the key-value store as a service, and the commands that use it: get, put, del, watch, lock, serve.

Values are shown as text with escapes for what a terminal must not get; ``--raw`` writes their bytes as they are.

Invariant: the command of `pykraft kv lock` does not run when the lock is certainly held by another one: if the lease
cannot be kept, the command is ended before the lease can end. Nor does it outlive this process.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from pykraft.cli.client_options import client_properties
from pykraft.cli.config_file import checked_config, override, read_properties, warn_of_neighbors, with_cluster_id
from pykraft.cli.parsing.group import Group
from pykraft.cli.parsing.value import NumberType, OneOf, json_lines_option, json_option, listen_address
from pykraft.cli.printable import printable
from pykraft.cli.server import LEVELS
from pykraft.config import INT64_MAX, NodeConfig
from pykraft.config.properties import with_origins
from pykraft.errors import LeaseLostError, PykraftError, UsageError
from pykraft.security.settings import IN_THE_CLEAR, Security
from pykraft.text.words import counted
from pykraft.types import PORT_MAX, Endpoint

if TYPE_CHECKING:  # imported when a command runs, so that --help is quick
    from pykraft.kv.client import ClientLease, KeyValueClient
    from pykraft.local.child import Child

HTTP: Final = "127.0.0.1:7080"
"""Node 1 of `pykraft kv serve`; the others have the next ports."""
URLS: Final = "http://127.0.0.1:7080,http://127.0.0.1:7081,http://127.0.0.1:7082"
TIMEOUT_S: Final = 15.0
SECONDS: Final = NumberType(float, 0.1, 86_400)


def _without_password(context: click.Context, option: click.Parameter, urls: str) -> str:
    is_written = context.get_parameter_source(str(option.name)) is click.core.ParameterSource.COMMANDLINE
    if is_written and "@" in urls:
        raise UsageError("--url with a password: all users see it in the list of processes; set PYKRAFT_KV_URL to it")
    return urls


def _with_token(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    try:
        token = os.environ.get("PYKRAFT_KV_TOKEN") if path is None else path.read_text("ascii")
    except (OSError, ValueError) as error:
        raise UsageError(f"--token-file {path}: {getattr(error, 'strerror', None) or 'it is not ASCII'}") from error
    context.meta[CREDENTIALS] = None if token is None else token.strip()


CREDENTIALS: Final = "pykraft.kv.credentials"
_url_option = click.option(
    "--url",
    "urls",
    default=URLS,
    envvar="PYKRAFT_KV_URL",
    metavar="LIST",
    callback=_without_password,
    help="Nodes to ask, the next one if one does not answer; also PYKRAFT_KV_URL."
    "  [default: the three of `pykraft kv serve`]",
)
_token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    envvar="PYKRAFT_KV_TOKEN_FILE",
    metavar="FILE",
    expose_value=False,
    callback=_with_token,
    help="File with a token for the nodes or a proxy; or put the token itself into PYKRAFT_KV_TOKEN.",
)


def _with_security(context: click.Context, _: click.Parameter, path: Path | None) -> None:
    context.meta[SECURITY] = IN_THE_CLEAR if path is None else Security.of_client(client_properties(path))


SECURITY: Final = "pykraft.kv.security"
_security_option = click.option(
    "--command-config",
    type=click.Path(path_type=Path),
    envvar="PYKRAFT_KV_COMMAND_CONFIG",
    metavar="FILE",
    expose_value=False,
    callback=_with_security,
    help="File of client properties with ssl.…, for https.",
)


def url_option(command: Callable[..., None]) -> Callable[..., None]:
    """The nodes to ask, what they demand, and whom to trust; `client_of` takes all."""
    return _url_option(_token_option(_security_option(command)))


timeout_option = click.option(
    "--timeout", type=SECONDS, default=TIMEOUT_S, show_default=True, help="Seconds to wait for an answer."
)
prefix_option = click.option("--prefix", "is_prefix", is_flag=True, help="All keys that begin with KEY.")


def client_of(urls: str, timeout_s: float) -> KeyValueClient:
    """The client for these options. Errors: UsageError."""
    from pykraft.kv.client import KeyValueClient

    meta = click.get_current_context().meta
    nodes = [url.strip() for url in urls.split(",") if url.strip()]
    return KeyValueClient(nodes, timeout_s=timeout_s, token=meta[CREDENTIALS], security=meta[SECURITY])


def wanted_range(key: str, *, is_prefix: bool) -> dict[str, str]:
    """The range for a request."""
    return {"prefix" if is_prefix else "key": key}


STDIN: Final = "-"
VALUE_SIZE_BYTES_READ_MAX: Final = 1 << 17
"""Read from standard input; more than the service takes, which says what it takes."""
PAGE: Final = 1_000


@click.command(short_help="Print the value of a key, or the keys and values of a prefix.")
@click.argument("key")
@prefix_option
@click.option("--limit", type=NumberType(int, 1), default=PAGE, show_default=True, help="With --prefix: keys at most.")
@click.option("--stale", is_flag=True, help="Take what the node has now, however old, without asking the leader.")
@click.option("--revision", type=NumberType(int, 1), help="The value as of this revision.  [default: the newest]")
@click.option("--raw", is_flag=True, help="Write the bytes of the value as they are, without a line end.")
@url_option
@timeout_option
@json_option
def get(  # noqa: PLR0913 - one argument for each option
    *,
    key: str,
    is_prefix: bool,
    limit: int,
    stale: bool,
    revision: int | None,
    raw: bool,
    urls: str,
    timeout: float,
    as_json: bool,
) -> None:
    """Print the value of KEY; with --prefix a line for each key that begins so: key, tab, value.

    Without --stale the value has every change that was confirmed before. Exits with 1 if the key does not exist.
    """
    if raw and (is_prefix or as_json):
        raise UsageError("--raw prints one value: give it without --prefix and --json")
    how = {"stale": stale, **({} if revision is None else {"revision": revision})}
    found = read_items(client_of(urls, timeout), key, how, is_prefix=is_prefix, limit=limit)
    if as_json:
        click.echo(json.dumps(found))
    elif is_prefix:
        for item in found["items"]:
            click.echo(f"{printable(item['key'])}\t{printable(value_of(item))}")
        if found["more"]:
            click.echo(f"pykraft: there are more than {counted(limit, 'key')}: give a higher --limit", err=True)
    elif not found["items"]:
        raise PykraftError(f"there is no key {key!r}")
    elif raw:
        sys.stdout.buffer.write(value_of(found["items"][0]))
    else:
        click.echo(printable(value_of(found["items"][0])))


def read_items(client: Any, key: str, how: dict[str, Any], *, is_prefix: bool, limit: int) -> dict[str, Any]:  # noqa: ANN401 - a KeyValueClient, imported late
    """The items of a key or a prefix, page by page: ``items``, ``more`` and the ``revision`` of the last page."""
    wanted: dict[str, Any] = {**wanted_range(key, is_prefix=is_prefix), **how}
    items: list[Any] = []
    while True:
        page = client.ask("/v1/range", {**wanted, "limit": min(limit - len(items), PAGE)}, changes=False)
        items += page["items"]
        if not page["more"] or len(items) >= limit:
            return {"revision": page["revision"], "items": items, "more": page["more"]}
        # The next page begins right after the last key; the prefix ends where it did.
        wanted = {"key": items[-1]["key"] + "\0", "end": _end_of(key), **how}


def value_of(item: dict[str, Any]) -> bytes:
    """The bytes of an item."""
    return base64.b64decode(item["base64"]) if "base64" in item else str(item["value"]).encode()


@click.command(short_help="Set a key.")
@click.argument("key")
@click.argument("value")
@click.option("--lease", type=NumberType(int, 1), help="Delete the key when this lease ends.")
@url_option
@timeout_option
@json_option
def put(*, key: str, value: str, lease: int | None, urls: str, timeout: float, as_json: bool) -> None:
    """Set KEY to VALUE, or to the bytes of standard input if VALUE is -, and print the revision of the change."""
    body = {"key": key, **_given(value), **({} if lease is None else {"lease": lease})}
    done = client_of(urls, timeout).ask("/v1/put", body, changes=True)
    click.echo(json.dumps(done) if as_json else f"revision {done['revision']}")


@click.command("del", short_help="Delete a key, or all keys of a prefix.")
@click.argument("key")
@prefix_option
@url_option
@timeout_option
@json_option
def delete(*, key: str, is_prefix: bool, urls: str, timeout: float, as_json: bool) -> None:
    """Delete KEY, or with --prefix all keys that begin so, and print how many there were."""
    done = client_of(urls, timeout).ask("/v1/delete", wanted_range(key, is_prefix=is_prefix), changes=True)
    click.echo(json.dumps(done) if as_json else f"deleted {counted(done['deleted'], 'key')}")


def _given(value: str) -> dict[str, str]:
    if value != STDIN:
        return {"value": value}
    data = sys.stdin.buffer.read(VALUE_SIZE_BYTES_READ_MAX)
    return {"base64": base64.b64encode(data).decode("ascii")}


def _end_of(key: str) -> str:
    from pykraft.recipes import prefix

    return prefix(key)[1]


NODES: Final = 3
NODES_MAX: Final = 15

logger = logging.getLogger("pykraft")


@click.command(short_help="Run a node with the store and its HTTP API, or three to try it.")
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="Properties file of this node, as for `pykraft server`.",
)
@click.option(
    "--http", default=HTTP, show_default=True, metavar="HOST:PORT", help="Where the HTTP API listens; port 0 is any."
)
@click.option("--override", "overrides", multiple=True, metavar="KEY=VALUE", help="Property that overrides the file's.")
@click.option("--cluster-id", help="Cluster id; by default the one in meta.properties, or that of Kafka's test server.")
@click.option(
    "--log-level", type=OneOf(LEVELS), default="info", show_default=True, help="Log messages of this level and above."
)
@click.option(
    "--nodes",
    type=NumberType(int, 1, NODES_MAX),
    help="Without --config: this many nodes, on the next HTTP ports.  [default: 3]",
)
@click.option(
    "--hold-at",
    "hold_at",
    type=NumberType(int, 0, INT64_MAX),
    multiple=True,
    help="With --config: do not apply the command at this offset, so that `pykraft machine skip` can skip it.",
)
@click.option(
    "--credentials-file",
    type=click.Path(path_type=Path),
    help="With --config: who may use the API, a line each: user:password, or a token.  [default: whoever connects]",
)
def serve(
    *,
    config_path: Path | None,
    http: str,
    overrides: tuple[str, ...],
    cluster_id: str | None,
    log_level: str,
    nodes: int | None,
    hold_at: tuple[int, ...],
    credentials_file: Path | None,
) -> None:
    """Run a node of a quorum with --config. Without it, run three nodes in a temporary folder until Ctrl-C.

    Whoever reaches the HTTP address can read and change the store, unless --credentials-file says who may, or the
    listener HTTP of the properties has TLS and asks for a certificate.
    """
    from pykraft.kv.service import require_package

    require_package()
    at = listen_address("--http", http)
    if config_path is None:
        if overrides or hold_at or cluster_id is not None or credentials_file is not None:
            raise UsageError(
                "--override, --cluster-id, --hold-at and --credentials-file need --config: without it the nodes are "
                "configured for you"
            )
        _try(at, nodes or NODES)
        return
    if nodes is not None:
        raise UsageError("--nodes and --config: give --config for one node, or --nodes to try several")
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", stream=sys.stderr)
    logger.setLevel(log_level.upper())
    properties = read_properties(config_path)
    override(properties, overrides, "--override")
    config = with_cluster_id(checked_config(properties), cluster_id)
    warn_of_neighbors(config)
    with with_origins(properties):
        _serve(config, at, hold_at, credentials_file)


def _serve(config: NodeConfig, at: Endpoint, hold_at: tuple[int, ...], credentials: Path | None) -> None:
    from pykraft.kv.service import serve as run
    from pykraft.server.run import loop_factory

    with asyncio.Runner(loop_factory=loop_factory("auto")) as runner:
        runner.run(run(config, at, hold_at=hold_at, credentials=credentials))


def _try(first: Endpoint, nodes: int) -> None:
    from pykraft.kv.service import try_quorum

    if first.port + nodes - 1 > PORT_MAX:
        raise UsageError(f"--http {first}: ports are needed up to {first.port + nodes - 1}")

    def show(running: Sequence[tuple[Endpoint, Child]]) -> None:
        for address, child in running:
            click.echo(f"{child.name}: http://{address}, process {child.pid}")
        urls = ",".join(f"http://{address}" for address, _ in running)
        option = "" if str(first) == HTTP and nodes == NODES else f" --url {urls}"
        click.echo(
            "\n".join(("", "next, in another terminal:", *_examples(first, option), "", "Ctrl-C ends all nodes."))
        )
        sys.stdout.flush()

    try_quorum(nodes, first, show=show, report=lambda line: click.echo(f"pykraft: {line}", err=True))


def _examples(first: Endpoint, option: str) -> list[str]:
    return [
        f"  pykraft kv put{option} color red",
        f"  pykraft kv get{option} color",
        f"  pykraft kv watch{option} --prefix ''",
        f"  pykraft kv lock{option} backup -- sleep 5",
        f'  curl http://{first}/v1/get -d \'{{"key": "color"}}\'',
    ]


TTL_S: Final = 10.0
END_SHARE: Final = 0.1
"""Of the lease's time, between SIGTERM and SIGKILL when the lock is lost; a fifth of it is left then."""
INTERRUPT_S: Final = 0.2
"""The same when a signal ends this process."""
EXIT_SIGNAL: Final = 128


@click.command(short_help="Run a command while a lock is held.")
@click.argument("name")
@click.argument("command", nargs=-1, required=True)
@click.option(
    "--ttl",
    type=NumberType(float, 1, 86_400),
    default=TTL_S,
    show_default=True,
    help="Seconds after which others get the lock if this process dies.",
)
@click.option("--wait", type=SECONDS, default=86_400.0, help="Seconds to wait for the lock.  [default: a day]")
@click.option("--holder", help="A text about the holder, for others to read.  [default: host and process id]")
@url_option
@json_option
def lock(
    *, name: str, command: Sequence[str], ttl: float, wait: float, holder: str | None, urls: str, as_json: bool
) -> None:
    """Wait for the lock NAME, run COMMAND, and exit with its status; 128 + N if signal N ended it.

    COMMAND gets PYKRAFT_LOCK_TOKEN, a number that is higher for each later holder, and PYKRAFT_LOCK_KEY. If the lock is
    lost, COMMAND is ended by SIGTERM, then SIGKILL.
    """
    from pykraft.kv.client import ClientLease

    if shutil.which(command[0]) is None:
        raise UsageError(f"{command[0]}: there is no such command")
    if not name:
        raise UsageError("NAME: a lock has a name of at least one character")
    told = f"{socket.gethostname()} {os.getpid()}" if holder is None else holder
    with ClientLease(client_of(urls, max(1.0, ttl / 2)), int(ttl * 1_000)) as lease:
        place = lease.lock(name, told, wait)
        if as_json:
            click.echo(json.dumps({"name": name, "key": place["key"], "token": place["token"], "lease": lease.lease}))
            sys.stdout.flush()
        with _running(command, place, ttl * END_SHARE) as process:
            _keep_until_ended(lease, process)
    sys.exit(process.returncode if process.returncode >= 0 else EXIT_SIGNAL - process.returncode)


def _keep_until_ended(lease: ClientLease, process: subprocess.Popen[bytes]) -> None:
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(max(0.01, lease.pause_s))
            return
        lease.keep()


@contextmanager
def _running(command: Sequence[str], place: dict[str, Any], end_s: float) -> Iterator[subprocess.Popen[bytes]]:
    """Run the command within this block; after it the command has ended. Errors: UsageError, LeaseLostError."""
    from pykraft.local.child import Keeper
    from pykraft.process.signals import signals_later

    environment = {"PYKRAFT_LOCK_TOKEN": str(place["token"]), "PYKRAFT_LOCK_KEY": place["key"]}
    keeper = Keeper()
    try:
        with signals_later():
            process = subprocess.Popen(command, env=os.environ | environment)
            keeper.know_processes([process.pid])
        try:
            yield process
        except LeaseLostError as error:
            _end(process, end_s)
            raise LeaseLostError(f"{error}; {command[0]} was ended, since another one may hold the lock now") from error
        except BaseException:
            _end(process, INTERRUPT_S)
            raise
    except OSError as error:
        raise UsageError(f"{command[0]}: {error.strerror}") from error
    finally:
        keeper.close()


def _end(process: subprocess.Popen[bytes], term_s: float) -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(term_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@click.command(short_help="Print the changes of a key or a prefix.")
@click.argument("key")
@prefix_option
@click.option("--from", "from_revision", type=NumberType(int, 1), help="First revision.  [default: the next change]")
@click.option("--max-changes", type=NumberType(int, 1), help="Stop after this many changes.")
@url_option
@timeout_option
@json_lines_option("a change")
def watch(
    *,
    key: str,
    is_prefix: bool,
    from_revision: int | None,
    max_changes: int | None,
    urls: str,
    timeout: float,
    as_json: bool,
) -> None:
    """Print each change of KEY, or with --prefix of all keys that begin so, until Ctrl-C.

    A line has revision, `put` or `delete`, key and value, separated by tabs. If the node ends, the watch goes on at
    the next one, without a gap; it fails when no node answers for --timeout seconds.
    """
    changes = client_of(urls, timeout).watch(wanted_range(key, is_prefix=is_prefix), from_revision)
    for count, change in enumerate(changes, start=1):
        click.echo(json.dumps(change) if as_json else _line(change))
        if count == max_changes:
            return


def _line(change: dict[str, Any]) -> str:
    item = change["item"]
    what = ("delete",) if item is None else ("put",)
    value = () if item is None else (printable(value_of(item)),)
    return "\t".join((str(change["revision"]), *what, printable(change["key"]), *value))


@click.group(cls=Group)
def kv() -> None:
    """Run the key-value store as a service with an HTTP/JSON API, and use it."""


for each in (serve, get, put, delete, watch, lock):
    kv.add_command(each)
