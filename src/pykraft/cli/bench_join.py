"""`pykraft bench join`: what it costs a quorum that a new node joins through a large snapshot.

Owns what a person sees, and the limits that make it fail. However it ends, by Ctrl-C and SIGTERM too, the nodes end
with it and their files go.
"""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pykraft.cli.interrupt import ended_by_sigterm
from pykraft.errors import LocalQuorumError

if TYPE_CHECKING:
    from pykraft.bench.join import Joined


@click.command("join")
@click.option("--snapshot-mib", default=1_024, show_default=True, help="Size of the snapshot.")
@click.option("--throughput", default=2_000, show_default=True, help="Records a second, all the time.")
@click.option("--record-size", default=100, show_default=True, help="Bytes of each record.")
@click.option("--seconds", default=15.0, show_default=True, help="How long commits are measured before.")
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="For the logs; a temporary folder by default.")
@click.option("--json", "as_json", is_flag=True, help="JSON instead of text.")
def bench_join(
    *, snapshot_mib: int, throughput: int, record_size: int, seconds: float, folder: Path | None, as_json: bool
) -> None:
    """Let a new node join a quorum of three through a snapshot, under load: memory, and the time of commits.

    Ends with 1 when the node or the leader that serves it takes 150 MiB or more, or the slowest percent of commits
    takes more than three times as long as before.
    """
    from pykraft.bench.join import JoinOptions, failures, join
    from pykraft.bench.machine import machine
    from pykraft.bench.usage import require_proc
    from pykraft.local.child import Children

    place = folder or Path(tempfile.gettempdir())
    options = JoinOptions(
        snapshot_mib=snapshot_mib,
        records_per_s=throughput,
        record_size_bytes=record_size,
        before_s=seconds,
        folder=place,
    )
    require_proc()
    try:
        with ended_by_sigterm(), tempfile.TemporaryDirectory(dir=place) as home, Children() as children:
            try:
                joined = join(children, Path(home), options)
            except LocalQuorumError:
                click.echo(children.log_ends(), err=True)
                raise
    except (KeyboardInterrupt, SystemExit):
        click.echo("interrupted: all nodes were killed", err=True)
        raise
    failed = failures(joined)
    if as_json:
        click.echo(json.dumps({**_document(joined), "failures": failed, "machine": machine()}, indent=2))
    else:
        click.echo(_text(joined))
    for text in failed:
        click.echo(f"FAILED {text}", err=True)
    if failed:
        raise SystemExit(1)


def _document(joined: Joined) -> dict[str, Any]:
    return {**asdict(joined), "slowdown": round(joined.slowdown, 3)}


def _text(joined: Joined) -> str:
    size_mib, rate_mb = joined.snapshot_size_bytes / 2**20, joined.snapshot_size_bytes / joined.download_s / 1e6
    took = f"{joined.download_s:.1f} s ({rate_mb:,.0f} MB/s), {joined.caught_up_s:.1f} s more for the log"
    leader = f"{joined.leader_memory_mib:.0f} MiB the leader ({joined.leader_memory_before_mib:.0f} before)"
    before = f"p50 {joined.before_ms['p50']:.0f} ms, p99 {joined.before_ms['p99']:.0f} ms"
    during = f"p50 {joined.during_ms['p50']:.0f} ms, p99 {joined.during_ms['p99']:.0f} ms"
    lines = {
        "snapshot": f"{size_mib:,.0f} MiB in {took}",
        "memory, at most": f"{joined.joiner_memory_mib:.0f} MiB the new node, {leader}",
        "commits before": before,
        "commits meanwhile": f"{during}: {joined.slowdown:.2f} times",
        "acknowledged": f"{joined.acknowledged:,} records, and all are there",
    }
    return "\n".join(f"{name:<19}{text}" for name, text in lines.items())
