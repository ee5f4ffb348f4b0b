"""`pykraft bench transfer`: how long a leadership transfer from voter to voter takes.

Defines the output, and the limit that makes the command fail.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from pykraft.cli.bench.run import folder_option, record_size_option, run_in, tell, throughput_option
from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.value import WHOLE
from pykraft.text.words import about, counted

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.bench.transfer import Transferred

START_S: Final = 10.0
TRANSFER_S: Final = 1.5
"""A transfer with the load before it."""


@click.command("transfer")
@click.option("--nodes", type=WHOLE, default=5, show_default=True, help="Number of voters.")
@click.option("--runs", type=WHOLE, default=15, show_default=True, help="Number of transfers.")
@throughput_option
@record_size_option
@folder_option
@json_option
def bench_transfer(*, nodes: int, runs: int, throughput: int, record_size: int, folder: Path, as_json: bool) -> None:
    """Transfer leadership from voter to voter under load; measure how long it takes and how long commits pause.

    Exits with 1 if the median transfer takes 200 ms or more.
    """
    from pykraft.bench.transfer import TransferOptions, failures, transfer

    options = TransferOptions(
        nodes=nodes, runs=runs, records_per_s=throughput, record_size_bytes=record_size, folder=folder
    )
    plan = f"{counted(runs, 'transfer')} on a quorum of {counted(nodes, 'node')}: {about(runs * TRANSFER_S + START_S)}"
    transferred = run_in(folder, lambda children, home: transfer(children, home, options), plan=plan)
    tell(asdict(transferred), _lines(transferred), failures(transferred), as_json=as_json)


def _lines(transferred: Transferred) -> dict[str, str]:
    return {
        "until it leads": _spread(transferred.took_ms),
        "nothing committed": _spread(transferred.pause_ms),
        "went elsewhere": f"{transferred.missed} of {transferred.missed + len(transferred.took_ms)}",
        "acknowledged": f"{counted(transferred.acknowledged, 'record')}, none missing",
    }


def _spread(values_ms: Sequence[float]) -> str:
    if not values_ms:
        return "never"
    least, median, most = min(values_ms), statistics.median(values_ms), max(values_ms)
    return f"{least:.0f} / {median:.0f} / {most:.0f} ms (minimum, median, maximum)"
