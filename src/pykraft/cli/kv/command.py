"""`pykraft kv`: the key-value store as a service, and commands that use it.

Lists the commands; each is a file of its own.
"""

from __future__ import annotations

import click

from pykraft.cli.kv.items import delete, get, put
from pykraft.cli.kv.lock import lock
from pykraft.cli.kv.serve import serve
from pykraft.cli.kv.watch import watch
from pykraft.cli.parsing.group import Group


@click.group(cls=Group)
def kv() -> None:
    """Run the key-value store as a service with an HTTP/JSON API, and use it."""


for each in (serve, get, put, delete, watch, lock):
    kv.add_command(each)
