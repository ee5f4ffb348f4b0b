"""`pykraft bench transfer`: how long the leadership is on its way from voter to voter.

Owns what a person sees, and the limit that makes it fail. However it ends, by Ctrl-C and SIGTERM too, the nodes end
with it and their files go.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykraft.cli.interrupt import ended_by_sigterm
from pykraft.errors import LocalQuorumError

if TYPE_CHECKING:
    from pykraft.bench.transfer import Transferred


@click.command("transfer")
@click.option("--nodes", default=5, show_default=True, help="Voters.")
@click.option("--runs", default=15, show_default=True, help="Transfers, one after the other.")
@click.option("--throughput", default=2_000, show_default=True, help="Records a second, all the time.")
@click.option("--record-size", default=100, show_default=True, help="Bytes of each record.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="For the logs; a temporary folder by default.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def bench_transfer(
    *, nodes: int, runs: int, throughput: int, record_size: int, folder: Path | None, as_json: bool
) -> None:
    """Give the leadership from voter to voter, under load: the time until the next one leads, and the pause for others.

    Ends with 1 when the median takes 200 ms or more.
    """
    from pykraft.bench.machine import machine
    from pykraft.bench.transfer import TransferOptions, failures, transfer
    from pykraft.local.child import Children

    place = folder or Path(tempfile.gettempdir())
    options = TransferOptions(
        nodes=nodes, runs=runs, records_per_s=throughput, record_size_bytes=record_size, folder=place
    )
    try:
        with ended_by_sigterm(), tempfile.TemporaryDirectory(dir=place) as home, Children() as children:
            try:
                transferred = transfer(children, Path(home), options)
            except LocalQuorumError:
                click.echo(children.log_ends(), err=True)
                raise
    except (KeyboardInterrupt, SystemExit):
        click.echo("interrupted: all nodes were killed", err=True)
        raise
    failed = failures(transferred)
    if as_json:
        click.echo(json.dumps({**asdict(transferred), "failures": failed, "machine": machine()}, indent=2))
    else:
        click.echo(_text(transferred))
    for text in failed:
        click.echo(f"FAILED {text}", err=True)
    if failed:
        raise SystemExit(1)


def _text(transferred: Transferred) -> str:
    lines = {
        "until it leads": _spread(transferred.took_ms),
        "nothing committed": _spread(transferred.pause_ms),
        "went elsewhere": f"{transferred.missed} of {transferred.missed + len(transferred.took_ms)}",
        "acknowledged": f"{transferred.acknowledged:,} records, and all are there",
    }
    return "\n".join(f"{name:<19}{text}" for name, text in lines.items())


def _spread(values_ms: Sequence[float]) -> str:
    if not values_ms:
        return "never"
    return f"{min(values_ms):.0f} / {statistics.median(values_ms):.0f} / {max(values_ms):.0f} ms (least, median, most)"
