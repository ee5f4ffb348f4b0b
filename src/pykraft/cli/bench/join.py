"""`pykraft bench join`: what it costs a quorum when a new node joins through a large snapshot.

Defines the output, and the limits that make the command fail.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pykraft.cli.bench.run import folder_option, record_size_option, run_in, tell, throughput_option
from pykraft.cli.json_option import json_option
from pykraft.cli.parsing.value import DECIMAL, WHOLE
from pykraft.text.words import counted

if TYPE_CHECKING:  # imported when the command runs, so that --help is quick
    from pykraft.bench.join import Joined


@click.command("join")
@click.option("--snapshot-mib", type=WHOLE, default=1_024, show_default=True, help="Size of the snapshot, in MiB.")
@throughput_option
@record_size_option
@click.option(
    "--seconds",
    type=DECIMAL,
    default=15.0,
    show_default=True,
    help="Seconds to measure commits before the node joins.",
)
@folder_option
@json_option
def bench_join(
    *, snapshot_mib: int, throughput: int, record_size: int, seconds: float, folder: Path, as_json: bool
) -> None:
    """Add a node that needs a snapshot to a quorum of three under load; measure memory and commit latency.

    Exits with 1 if the new node or the leader uses 150 MiB or more, or if the p99 commit latency is more than three
    times what it was before the node joined.
    """
    from pykraft.bench.join import JoinOptions, failures, join
    from pykraft.bench.usage import require_proc

    options = JoinOptions(
        snapshot_mib=snapshot_mib,
        records_per_s=throughput,
        record_size_bytes=record_size,
        before_s=seconds,
        folder=folder,
    )
    require_proc()
    plan = f"{seconds:g} s of load, then a node joins with a snapshot of {snapshot_mib:,} MiB: a minute or a few in all"
    joined = run_in(folder, lambda children, home: join(children, home, options), plan=plan)
    document = {**asdict(joined), "slowdown": round(joined.slowdown, 3)}
    tell(document, _lines(joined), failures(joined), as_json=as_json)


def _lines(joined: Joined) -> dict[str, str]:
    size_mib, rate_mb = joined.snapshot_size_bytes / 2**20, joined.snapshot_size_bytes / joined.download_s / 1e6
    took = f"{joined.download_s:.1f} s ({rate_mb:,.0f} MB/s), {joined.caught_up_s:.1f} s more for the log"
    leader = f"{joined.leader_memory_mib:.0f} MiB leader ({joined.leader_memory_before_mib:.0f} before)"
    before = f"p50 {joined.before_ms['p50']:.0f} ms, p99 {joined.before_ms['p99']:.0f} ms"
    during = f"p50 {joined.during_ms['p50']:.0f} ms, p99 {joined.during_ms['p99']:.0f} ms"
    return {
        "snapshot": f"{size_mib:,.0f} MiB in {took}",
        "peak memory": f"{joined.joiner_memory_mib:.0f} MiB new node, {leader}",
        "commits before": before,
        "commits during": f"{during}: p99 × {joined.slowdown:.2f}",
        "acknowledged": f"{counted(joined.acknowledged, 'record')}, none missing",
    }
