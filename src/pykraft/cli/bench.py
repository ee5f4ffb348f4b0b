"""`pykraft bench`: figures that can be repeated, on whatever machine.

Owns the list of what can be measured.
"""

from __future__ import annotations

import click

from pykraft.cli.bench_join import bench_join
from pykraft.cli.bench_raft import bench_raft
from pykraft.cli.bench_transfer import bench_transfer


@click.group()
def bench() -> None:
    """Measure: cores and disks swing, so compare only what ran in turn."""


bench.add_command(bench_raft)
bench.add_command(bench_join)
bench.add_command(bench_transfer)
