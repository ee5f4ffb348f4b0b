"""`pykraft kv watch`: the changes of keys as they are made, at whichever node answers."""

from __future__ import annotations

import json
from typing import Any

import click

from pykraft.cli.json_option import json_lines_option
from pykraft.cli.kv.items import value_of
from pykraft.cli.kv.options import client_of, prefix_option, timeout_option, url_option, wanted_range
from pykraft.cli.parsing.value import NumberType
from pykraft.cli.printable import printable


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
