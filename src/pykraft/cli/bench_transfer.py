"""`pykraft bench transfer`: how long the leadership is on its way from voter to voter.

Owns what a person sees, and the limit that makes it fail.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykraft.cli.bench_run import folder_option, record_size_option, run_in, tell, throughput_option
from pykraft.cli.json_option import json_option

if TYPE_CHECKING:
    from pykraft.bench.transfer import Transferred


@click.command("transfer")
@click.option("--nodes", default=5, show_default=True, help="Voters.")
@click.option("--runs", default=15, show_default=True, help="Transfers, one after the other.")
@throughput_option
@record_size_option
@folder_option
@json_option
def bench_transfer(*, nodes: int, runs: int, throughput: int, record_size: int, folder: Path, as_json: bool) -> None:
    """Give the leadership from voter to voter, under load: the time until the next one leads, and the pause for others.

    Ends with 1 when the median takes 200 ms or more.
    """
    from pykraft.bench.transfer import TransferOptions, failures, transfer

    options = TransferOptions(
        nodes=nodes, runs=runs, records_per_s=throughput, record_size_bytes=record_size, folder=folder
    )
    transferred = run_in(folder, lambda children, home: transfer(children, home, options))
    tell(asdict(transferred), _lines(transferred), failures(transferred), as_json=as_json)


def _lines(transferred: Transferred) -> dict[str, str]:
    return {
        "until it leads": _spread(transferred.took_ms),
        "nothing committed": _spread(transferred.pause_ms),
        "went elsewhere": f"{transferred.missed} of {transferred.missed + len(transferred.took_ms)}",
        "acknowledged": f"{transferred.acknowledged:,} records, and all are there",
    }


def _spread(values_ms: Sequence[float]) -> str:
    if not values_ms:
        return "never"
    return f"{min(values_ms):.0f} / {statistics.median(values_ms):.0f} / {max(values_ms):.0f} ms (least, median, most)"
