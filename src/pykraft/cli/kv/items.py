"""`pykraft kv get`, `put` and `del`: keys and values of the service, from a shell.

Values are shown as text with escapes for what a terminal must not get; ``--raw`` writes their bytes as they are.
"""

from __future__ import annotations

import base64
import json
import sys
from typing import Any, Final

import click

from pykraft.cli.json_option import json_option
from pykraft.cli.kv.options import client_of, prefix_option, timeout_option, url_option, wanted_range
from pykraft.cli.parsing.value import NumberType
from pykraft.cli.printable import printable
from pykraft.errors import PykraftError, UsageError
from pykraft.text.words import counted

STDIN: Final = "-"
VALUE_SIZE_BYTES_READ_MAX: Final = 1 << 17
"""Read from standard input; more than the service takes, which says what it takes."""
PAGE: Final = 1_000


@click.command(short_help="Print the value of a key, or the keys and values of a prefix.")
@click.argument("key")
@prefix_option
@click.option("--limit", type=NumberType(int, 1), default=PAGE, show_default=True, help="With --prefix: keys at most.")
@click.option("--stale", is_flag=True, help="Take what the node has now, however old, without asking the leader.")
@click.option("--raw", is_flag=True, help="Write the bytes of the value as they are, without a line end.")
@url_option
@timeout_option
@json_option
def get(
    *, key: str, is_prefix: bool, limit: int, stale: bool, raw: bool, urls: str, timeout: float, as_json: bool
) -> None:
    """Print the value of KEY; with --prefix a line for each key that begins so: key, tab, value.

    Without --stale the value has all changes that were applied before. A key that does not exist is an error (1).
    """
    if raw and (is_prefix or as_json):
        raise UsageError("--raw prints one value: give it without --prefix and --json")
    found = read_items(client_of(urls, timeout), key, is_prefix=is_prefix, limit=limit, stale=stale)
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


def read_items(client: Any, key: str, *, is_prefix: bool, limit: int, stale: bool) -> dict[str, Any]:  # noqa: ANN401 - a KeyValueClient, imported late
    """The items of a key or a prefix, page by page: ``items``, ``more`` and the ``revision`` of the last page."""
    wanted: dict[str, Any] = {**wanted_range(key, is_prefix=is_prefix), "stale": stale}
    items: list[Any] = []
    while True:
        page = client.ask("/v1/range", {**wanted, "limit": min(limit - len(items), PAGE)}, changes=False)
        items += page["items"]
        if not page["more"] or len(items) >= limit:
            return {"revision": page["revision"], "items": items, "more": page["more"]}
        # The next page begins right after the last key; the prefix ends where it did.
        wanted = {"key": items[-1]["key"] + "\0", "end": _end_of(key), "stale": stale}


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
