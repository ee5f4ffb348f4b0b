"""`pykraft bench`: measurements that anyone can repeat on their own machine.

Lists the benchmarks.
"""

from __future__ import annotations

import click

from pykraft.cli.bench.join import bench_join
from pykraft.cli.bench.raft import bench_raft
from pykraft.cli.bench.transfer import bench_transfer
from pykraft.cli.parsing.group import Group


@click.group(cls=Group)
def bench() -> None:
    """Run benchmarks on local quorums. A machine's speed varies over time, so only compare runs that took turns."""


bench.add_command(bench_raft)
bench.add_command(bench_join)
bench.add_command(bench_transfer)
